import java.io.FileWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;

import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.coordinator.group.api.streams.StreamsGroupTopologyDescription;
import org.apache.kafka.coordinator.group.api.streams.StreamsGroupTopologyDescriptionPlugin;
import org.apache.kafka.server.telemetry.ClientTelemetryContext;
import org.apache.kafka.server.telemetry.ClientTelemetryExporter;
import org.apache.kafka.server.telemetry.ClientTelemetryExporterProvider;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;

/**
 * A broker's plugin for two purposes. It takes clients' metrics (KIP-714), and writes a line for each push to the file
 * that the property "telemetry.file" names: client id, client instance id, whether the client stops, content type, the
 * push interval in ms, and the metrics in base64, with tabs between. And it keeps topologies of streams groups
 * (KIP-1331) in memory.
 */
public final class BrokerPlugin
        implements MetricsReporter,
                ClientTelemetryExporterProvider,
                ClientTelemetryExporter,
                StreamsGroupTopologyDescriptionPlugin {
    private final Map<String, StreamsGroupTopologyDescription> topologies = new ConcurrentHashMap<>();
    private String file;

    @Override
    public void configure(Map<String, ?> configs) {
        file = (String) configs.get("telemetry.file");
    }

    @Override
    public ClientTelemetryExporter clientTelemetryExporter() {
        return this;
    }

    @Override
    public synchronized void exportMetrics(ClientTelemetryContext context, ClientTelemetryPayload payload) {
        ByteBuffer data = payload.data().duplicate();
        byte[] bytes = new byte[data.remaining()];
        data.get(bytes);
        String line = String.join(
            "\t",
            context.authorizableRequestContext().clientId(),
            payload.clientInstanceId().toString(),
            Boolean.toString(payload.isTerminating()),
            payload.contentType(),
            Integer.toString(context.pushIntervalMs()),
            Base64.getEncoder().encodeToString(bytes)
        );
        try (FileWriter writer = new FileWriter(file, StandardCharsets.UTF_8, true)) {
            writer.write(line + "\n");
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    @Override
    public CompletableFuture<Void> setTopology(String group, int epoch, StreamsGroupTopologyDescription description) {
        topologies.put(group, description);
        return CompletableFuture.completedFuture(null);
    }

    @Override
    public CompletableFuture<Void> deleteTopology(String group) {
        topologies.remove(group);
        return CompletableFuture.completedFuture(null);
    }

    @Override
    public CompletableFuture<StreamsGroupTopologyDescription> getTopology(String group, int epoch) {
        return CompletableFuture.completedFuture(topologies.get(group));
    }

    @Override
    public void init(List<KafkaMetric> metrics) {
    }

    @Override
    public void metricChange(KafkaMetric metric) {
    }

    @Override
    public void metricRemoval(KafkaMetric metric) {
    }

    @Override
    public void close() {
    }
}
