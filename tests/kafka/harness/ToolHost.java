import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.Base64;

/**
 * Runs the main methods of Kafka's tools, one after the other, in one warm JVM.
 *
 * A request is a line of words: the class, its stdin, each argument; all but the class in base64. The reply is a line:
 * exit code, stdout and stderr, the latter two in base64.
 */
public final class ToolHost {
    /** Thrown where a tool would end the JVM; an Error, so that a tool's "catch (Exception)" lets it pass. */
    private static final class ExitRequest extends Error {
        private static final long serialVersionUID = 1L;
        final int status;

        ExitRequest(int status, String message) {
            super(message, null, false, false);
            this.status = status;
        }
    }

    /** What stands behind System.out and System.err: never replaced, since Scala's Console keeps what it found first. */
    private static final class Capture extends OutputStream {
        private final ByteArrayOutputStream bytes = new ByteArrayOutputStream();

        @Override
        public synchronized void write(int b) {
            bytes.write(b);
        }

        @Override
        public synchronized void write(byte[] source, int offset, int length) {
            bytes.write(source, offset, length);
        }

        synchronized String take() {
            String encoded = Base64.getEncoder().encodeToString(bytes.toByteArray());
            bytes.reset();
            return encoded;
        }
    }

    public static void main(String[] args) throws Exception {
        PrintStream replies = System.out;
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        Capture out = new Capture();
        Capture err = new Capture();
        System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
        keepRunning();
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            String[] words = line.split(" ", -1);
            System.setIn(new ByteArrayInputStream(Base64.getDecoder().decode(words[1])));
            String[] arguments = new String[words.length - 2];
            for (int i = 0; i < arguments.length; i++)
                arguments[i] = new String(Base64.getDecoder().decode(words[i + 2]), StandardCharsets.UTF_8);
            int status = run(words[0], arguments);
            System.out.flush();
            System.err.flush();
            replies.println(status + " " + out.take() + " " + err.take());
            replies.flush();
        }
    }

    /** Have tools that would end the JVM throw an ExitRequest. Kafka's class for it has moved in 4.4. */
    private static void keepRunning() throws ReflectiveOperationException {
        Class<?> exit;
        try {
            exit = Class.forName("org.apache.kafka.common.utils.internals.Exit");
        } catch (ClassNotFoundException e) {
            exit = Class.forName("org.apache.kafka.common.utils.Exit");
        }
        Class<?> procedure = Class.forName(exit.getName() + "$Procedure");
        Object thrower = Proxy.newProxyInstance(
            procedure.getClassLoader(),
            new Class<?>[] {procedure},
            (proxy, method, given) -> { throw new ExitRequest((Integer) given[0], (String) given[1]); });
        exit.getMethod("setExitProcedure", procedure).invoke(null, thrower);
        exit.getMethod("setHaltProcedure", procedure).invoke(null, thrower);
    }

    private static int run(String name, String[] arguments) {
        try {
            Class.forName(name).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return 0;
        } catch (InvocationTargetException e) {
            if (e.getCause() instanceof ExitRequest exit) {
                if (exit.getMessage() != null)
                    System.err.println(exit.getMessage());
                return exit.status;
            }
            e.getCause().printStackTrace();
            return 1;
        } catch (ReflectiveOperationException e) {
            e.printStackTrace();
            return 1;
        }
    }
}
