# The generator's own variables cannot be typed; compiled, its loop still takes half the time.
