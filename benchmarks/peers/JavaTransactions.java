// Transactions one after the other from Apache Kafka's own client: as benchmarks/suite/transactions.py, the same JSON.

import java.time.Duration;
import java.util.Arrays;
import java.util.Locale;
import java.util.Map;
import java.util.UUID;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

public final class JavaTransactions {
    private final String topic;
    private final int partitions;
    private final int records;
    private final byte[] value;
    private final KafkaProducer<byte[], byte[]> producer;

    private JavaTransactions(String[] arguments) {
        topic = arguments[1];
        partitions = Integer.parseInt(arguments[2]);
        records = Integer.parseInt(arguments[3]);
        value = new byte[Integer.parseInt(arguments[4])];
        producer = new KafkaProducer<>(Map.of(
                "bootstrap.servers", arguments[0], "acks", "all", "linger.ms", Integer.parseInt(arguments[5]),
                "transactional.id", "benchmark-" + UUID.randomUUID(),
                "key.serializer", ByteArraySerializer.class, "value.serializer", ByteArraySerializer.class));
    }

    private static double cpuSeconds() {
        return ProcessHandle.current().info().totalCpuDuration().orElse(Duration.ZERO).toNanos() / 1e9;
    }

    /** Milliseconds of the commit. */
    private double transaction() {
        producer.beginTransaction();
        for (int i = 0; i < records; i++) {
            producer.send(new ProducerRecord<>(topic, i % partitions, null, value));
        }
        long began = System.nanoTime();
        producer.commitTransaction();
        return (System.nanoTime() - began) / 1e6;
    }

    private void run(int warmUp, int count) {
        producer.initTransactions();
        for (int i = 0; i < warmUp; i++) {
            transaction();
        }
        double cpu = cpuSeconds();
        long began = System.nanoTime();
        double[] took = new double[count];
        for (int i = 0; i < count; i++) {
            took[i] = transaction();
        }
        double wall = (System.nanoTime() - began) / 1e9;
        cpu = cpuSeconds() - cpu;
        producer.close();
        Arrays.sort(took);
        System.out.printf(
                Locale.ROOT,
                "{\"transactions_per_second\": %f, \"p50\": %f, \"p99\": %f, \"cpu_us\": %f}%n",
                count / wall, took[count / 2], took[Math.min(count - 1, (int) (count * 0.99))],
                cpu / (count * (double) records) * 1e6);
    }

    /** Bootstrap servers, topic, partitions, records of a transaction, bytes, linger, transactions to warm up, to count. */
    public static void main(String[] arguments) {
        new JavaTransactions(arguments).run(Integer.parseInt(arguments[6]), Integer.parseInt(arguments[7]));
    }
}
