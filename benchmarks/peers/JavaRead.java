// A consumer of Apache Kafka's own client, in the words of benchmarks/reader.py: the same options, the same JSON.

import java.nio.ByteBuffer;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

public final class JavaRead {
    private final Map<String, String> options = new HashMap<>(Map.of("--retry-backoff-ms", "100"));
    private final Map<Long, String> seen = new LinkedHashMap<>();

    private JavaRead(String[] arguments) {
        for (int i = 0; i < arguments.length; i += 2) {
            options.put(arguments[i], arguments[i + 1]);
        }
    }

    private KafkaConsumer<byte[], byte[]> consumer() {
        String topic = options.get("--topic");
        String backoff = options.get("--retry-backoff-ms");
        String protocol = options.get("--group-protocol");
        Map<String, Object> config = new HashMap<>(Map.of(
                "bootstrap.servers", options.get("--bootstrap"), "auto.offset.reset", "earliest",
                "retry.backoff.ms", backoff, "retry.backoff.max.ms", backoff,
                "key.deserializer", ByteArrayDeserializer.class, "value.deserializer", ByteArrayDeserializer.class));
        if (protocol == null) {
            KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config);
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            return consumer;
        }
        config.putAll(Map.of("group.id", topic, "group.protocol", protocol));
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config);
        consumer.subscribe(List.of(topic));
        return consumer;
    }

    private void read(KafkaConsumer<byte[], byte[]> consumer) {
        try {
            while (true) {
                for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofSeconds(1))) {
                    long number = ByteBuffer.wrap(record.value()).getLong();
                    if (number >= 0) { // else one of the warm-up
                        Instant now = Instant.now();
                        double wall = now.getEpochSecond() + now.getNano() / 1e9;
                        seen.putIfAbsent(number, String.format(Locale.ROOT, "[%d, %.6f]", number, wall));
                    }
                }
            }
        } catch (WakeupException ended) {
            System.out.println(seen.values().stream().collect(Collectors.joining(", ", "[", "]")));
            System.out.flush();
        }
    }

    public static void main(String[] arguments) {
        JavaRead program = new JavaRead(arguments);
        KafkaConsumer<byte[], byte[]> consumer = program.consumer();
        Thread reading = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            consumer.wakeup();
            try {
                reading.join();
            } catch (InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
            Runtime.getRuntime().halt(0); // or SIGTERM would be the exit status
        }));
        program.read(consumer);
    }
}
