// A steady load from Apache Kafka's own client, in the words of benchmarks/load.py: the same options, the same JSON.

import java.nio.ByteBuffer;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class JavaLoad {
    private final Map<String, String> options = new HashMap<>();
    private final List<String> samples = new ArrayList<>();
    private int failed;

    private JavaLoad(String[] arguments) {
        options.putAll(Map.of("--partitions", "100", "--rate", "2000", "--size", "1000", "--seconds", "20"));
        options.putAll(Map.of("--warm-up-s", "4", "--retry-backoff-ms", "100"));
        for (int i = 0; i < arguments.length; i += 2) {
            options.put(arguments[i], arguments[i + 1]);
        }
    }

    private double number(String option) {
        return Double.parseDouble(options.get(option));
    }

    private static double cpuSeconds() {
        return ProcessHandle.current().info().totalCpuDuration().orElse(Duration.ZERO).toNanos() / 1e9;
    }

    private ProducerRecord<byte[], byte[]> record(int number) {
        byte[] value = new byte[(int) number("--size")];
        ByteBuffer.wrap(value).putLong(number);
        int partition = Math.floorMod(number, (int) number("--partitions"));
        return new ProducerRecord<>(options.get("--topic"), partition, null, value);
    }

    private synchronized void acknowledged(int number, Instant sent, long tookNanos, Exception error) {
        failed += error == null ? 0 : 1;
        if (number >= 0) {
            double wall = sent.getEpochSecond() + sent.getNano() / 1e9;
            samples.add(String.format(Locale.ROOT, "[%d, %.6f, %.4f]", number, wall, tookNanos / 1e6));
        }
    }

    private void run() throws InterruptedException {
        String backoff = options.get("--retry-backoff-ms");
        Map<String, Object> config = Map.of(
                "bootstrap.servers", options.get("--bootstrap"), "acks", "all", "linger.ms", 0,
                "retry.backoff.ms", backoff, "retry.backoff.max.ms", backoff,
                "key.serializer", ByteArraySerializer.class, "value.serializer", ByteArraySerializer.class);
        double cpu = 0;
        int count;
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config)) {
            int first = (int) number("--partitions") * 3;
            CountDownLatch warm = new CountDownLatch(first);
            Callback confirmed = (metadata, error) -> warm.countDown();
            for (int i = 1; i <= first; i++) {
                producer.send(record(-i), confirmed);
            }
            warm.await();
            double rate = number("--rate");
            double seconds = number("--seconds");
            count = (int) -(number("--warm-up-s") * rate);
            long began = System.nanoTime() + (long) (number("--warm-up-s") * 1e9);
            double elapsed;
            while ((elapsed = (System.nanoTime() - began) / 1e9) < seconds) {
                for (; count < elapsed * rate; count++) {
                    if (count == 0) {
                        System.err.println("ready");
                        cpu = cpuSeconds();
                    }
                    int number = count;
                    Instant wall = Instant.now();
                    long sentAt = System.nanoTime();
                    producer.send(
                            record(number),
                            (metadata, error) -> acknowledged(number, wall, System.nanoTime() - sentAt, error));
                }
                Thread.sleep(0, 500_000);
            }
        }
        System.out.printf(
                Locale.ROOT,
                "{\"client\": \"java\", \"sent\": %d, \"failed\": %d, \"cpu_us_per_record\": %f, \"samples\": [%s]}%n",
                count, failed, (cpuSeconds() - cpu) / count * 1e6, String.join(", ", samples));
    }

    public static void main(String[] arguments) throws InterruptedException {
        new JavaLoad(arguments).run();
    }
}
