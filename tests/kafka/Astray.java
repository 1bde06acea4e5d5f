// Apache Kafka's own clients of every kind at once: as tests/kafka/astray.py, the same lines.

import java.time.Duration;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class Astray {
    private static final long PAUSE_MS = 50;

    private final Map<String, String> options;
    private final int partitions;
    private volatile boolean stopped;

    private Astray(Map<String, String> options) {
        this.options = options;
        partitions = Integer.parseInt(options.get("partitions"));
    }

    private static synchronized void say(String role, String event, Object where, Object number) {
        System.out.printf(
                Locale.ROOT, "%s\t%s\t%s\t%s\t%.3f%n", role, event, where, number, System.currentTimeMillis() / 1e3);
        System.out.flush();
    }

    private Map<String, Object> config(Map<String, Object> more) {
        Map<String, Object> config = new HashMap<>(more);
        config.put("bootstrap.servers", options.get("bootstrap"));
        config.put("metadata.cluster.check.enable", options.get("check"));
        config.put("key.serializer", ByteArraySerializer.class);
        config.put("value.serializer", ByteArraySerializer.class);
        config.put("key.deserializer", ByteArrayDeserializer.class);
        config.put("value.deserializer", ByteArrayDeserializer.class);
        return config;
    }

    private static void pause() {
        try {
            Thread.sleep(PAUSE_MS);
        } catch (InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    private static byte[] value(int number) {
        return Integer.toString(number).getBytes();
    }

    private void send() {
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config(Map.of("linger.ms", 0)))) {
            for (int n = 0; !stopped; n++) {
                for (int p = 0; p < partitions; p++) {
                    int number = n;
                    int partition = p;
                    producer.send(new ProducerRecord<>(options.get("plain"), p, null, value(n)), (metadata, error) -> {
                        if (error == null) {
                            say("producer", "done", partition, number);
                        } else {
                            say("producer", "failed", partition, number + " " + error.getClass().getSimpleName());
                        }
                    });
                }
                pause();
            }
        }
    }

    private KafkaProducer<byte[], byte[]> transactional() {
        KafkaProducer<byte[], byte[]> producer =
                new KafkaProducer<>(config(Map.of("linger.ms", 0, "transactional.id", options.get("id"))));
        producer.initTransactions();
        return producer;
    }

    private void transact() {
        KafkaProducer<byte[], byte[]> producer = transactional();
        for (int n = 0; !stopped; n++) {
            String outcome = "unknown";
            try {
                producer.beginTransaction();
                for (int p = 0; p < partitions; p++) {
                    producer.send(new ProducerRecord<>(options.get("listed"), p, null, value(n)));
                }
                producer.commitTransaction();
                say("transactions", "done", "", n);
            } catch (KafkaException error) {
                try {
                    producer.abortTransaction();
                    outcome = "aborted";
                } catch (KafkaException fatal) {
                    producer.close(Duration.ZERO);
                    producer = transactional();
                }
                say("transactions", "failed", outcome, n + " " + error.getClass().getSimpleName());
            }
            pause();
        }
        producer.close();
    }

    private void consume(String protocol) {
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(config(Map.of(
                "group.id", options.get(protocol), "group.protocol", protocol, "isolation.level", "read_committed",
                "auto.offset.reset", "earliest", "auto.commit.interval.ms", 500)));
        consumer.subscribe(List.of(options.get("plain"), options.get("listed")));
        while (true) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                say(protocol, "done", record.topic() + "-" + record.partition(), record.offset());
            }
        }
    }

    private void share() {
        KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(
                config(Map.of("group.id", options.get("share"), "share.acknowledgement.mode", "explicit")));
        consumer.subscribe(List.of(options.get("plain")));
        while (true) {
            Map<Integer, List<Long>> taken = new LinkedHashMap<>();
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                consumer.acknowledge(record, AcknowledgeType.ACCEPT);
                taken.computeIfAbsent(record.partition(), p -> new java.util.ArrayList<>()).add(record.offset());
            }
            Map<TopicIdPartition, Optional<KafkaException>> outcomes = consumer.commitSync();
            outcomes.forEach((where, error) -> {
                for (long offset : taken.getOrDefault(where.partition(), List.of())) {
                    String name = error.map(e -> " " + e.getClass().getSimpleName()).orElse("");
                    say("share", error.isEmpty() ? "done" : "failed", where.partition(), offset + name);
                }
            });
        }
    }

    private void administer() {
        Map<TopicPartition, OffsetSpec> ends = IntStream.range(0, partitions).boxed()
                .collect(Collectors.toMap(p -> new TopicPartition(options.get("plain"), p), p -> OffsetSpec.latest()));
        try (Admin admin = Admin.create(config(Map.of()))) {
            while (!stopped) {
                try {
                    admin.listOffsets(ends).all().get();
                    say("admin", "done", "", "");
                } catch (Exception error) {
                    say("admin", "failed", "", error.getCause().getClass().getSimpleName());
                }
                pause();
            }
        }
    }

    private static Thread start(Runnable role) {
        Thread thread = new Thread(role);
        thread.setDaemon(true);
        thread.start();
        return thread;
    }

    private void run() throws Exception {
        start(() -> consume("classic"));
        start(() -> consume("consumer"));
        start(this::share);
        List<Thread> writers = List.of(start(this::send), start(this::transact), start(this::administer));
        while (System.in.read() != '\n') {}
        stopped = true;
        for (Thread writer : writers) {
            writer.join();
        }
        say("writers", "ended", "", "");
        Thread.currentThread().join();
    }

    /** Options, as name=value. */
    public static void main(String[] arguments) throws Exception {
        Map<String, String> options = new HashMap<>();
        for (String argument : arguments) {
            String[] parts = argument.split("=", 2);
            options.put(parts[0], parts[1]);
        }
        new Astray(options).run();
    }
}
