// Apache Kafka's own share consumer: as benchmarks/suite/share.py, the same JSON.

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public final class JavaShare {
    private final boolean explicit;
    private final KafkaShareConsumer<byte[], byte[]> consumer;

    private JavaShare(String bootstrap, String topic, String group, String method, int atOnce) {
        explicit = method.equals("explicit");
        consumer = new KafkaShareConsumer<>(Map.of(
                "bootstrap.servers", bootstrap, "group.id", group, "max.poll.records", atOnce,
                "share.acknowledgement.mode", explicit ? "explicit" : "implicit",
                "share.acquire.mode", method.equals("moves") ? "record_limit" : "batch_optimized",
                "key.deserializer", ByteArrayDeserializer.class, "value.deserializer", ByteArrayDeserializer.class));
        consumer.subscribe(List.of(topic));
    }

    private static double cpuSeconds() {
        return ProcessHandle.current().info().totalCpuDuration().orElse(Duration.ZERO).toNanos() / 1e9;
    }

    private int read(int count) {
        int seen = 0;
        while (seen < count) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                if (record.value() == null) {
                    throw new IllegalStateException("a record without value");
                }
                seen++;
                if (explicit) {
                    consumer.acknowledge(record, AcknowledgeType.ACCEPT);
                }
            }
        }
        return seen;
    }

    private void measure(int warmUp, int count) {
        read(warmUp);
        double cpu = cpuSeconds();
        long began = System.nanoTime();
        int seen = read(count);
        consumer.commitSync();
        double wall = (System.nanoTime() - began) / 1e9;
        cpu = cpuSeconds() - cpu;
        System.out.printf(
                Locale.ROOT, "{\"records\": %d, \"per_second\": %f, \"cpu_us\": %f}%n", seen, seen / wall, cpu / seen * 1e6);
    }

    /** Prints the wall-clock seconds of acknowledgements. */
    private void watch(long millis) {
        List<String> taken = new ArrayList<>();
        long end = System.nanoTime() + millis * 1_000_000;
        while (System.nanoTime() < end) {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofSeconds(1));
            if (records.isEmpty()) {
                continue;
            }
            Map<TopicIdPartition, Optional<KafkaException>> outcomes = consumer.commitSync();
            if (outcomes.values().stream().anyMatch(Optional::isEmpty)) {
                taken.add(String.format(Locale.ROOT, "%.6f", System.currentTimeMillis() / 1e3));
            }
        }
        System.out.println(taken.stream().collect(Collectors.joining(", ", "[", "]")));
    }

    /**
     * Bootstrap servers, topic, group, then "implicit" or "explicit", records to warm up, to count; or "moves", records
     * at once, milliseconds.
     */
    public static void main(String[] arguments) {
        String method = arguments[3];
        int first = Integer.parseInt(arguments[4]);
        int second = Integer.parseInt(arguments[5]);
        JavaShare share =
                new JavaShare(arguments[0], arguments[1], arguments[2], method, method.equals("moves") ? first : 500);
        try (share.consumer) {
            if (method.equals("moves")) {
                share.watch(second);
            } else {
                share.measure(first, second);
            }
        }
    }
}
