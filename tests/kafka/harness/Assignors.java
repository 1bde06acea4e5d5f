import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Assignment;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.GroupSubscription;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor.Subscription;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.RangeAssignor;
import org.apache.kafka.clients.consumer.RoundRobinAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.clients.consumer.internals.ConsumerProtocol;
import org.apache.kafka.common.Cluster;
import org.apache.kafka.common.Node;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;

/** Runs the Java client's assignors on cases from standard input, one JSON object per line, and tells the results. */
public class Assignors {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in, "UTF-8"));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            System.out.println(JSON.writeValueAsString(run(JSON.readTree(line))));
        }
    }

    private static ObjectNode run(JsonNode given) {
        String name = given.get("assignor").asText();
        ObjectNode encoded = JSON.createObjectNode();
        Map<String, Subscription> members = new HashMap<>();
        for (JsonNode member : given.get("members")) {
            Subscription subscription = subscription(name, member);
            members.put(member.get("id").asText(), subscription);
            encoded.put(member.get("id").asText(), hex(ConsumerProtocol.serializeSubscription(subscription)));
        }
        ObjectNode assigned = JSON.createObjectNode();
        assignor(name).assign(cluster(given.get("topics")), new GroupSubscription(members)).groupAssignment()
            .forEach((id, assignment) -> {
                ArrayNode partitions = assigned.putArray(id);
                for (TopicPartition partition : assignment.partitions()) {
                    partitions.addArray().add(partition.topic()).add(partition.partition());
                }
            });
        ObjectNode result = JSON.createObjectNode();
        result.set("assigned", assigned);
        result.set("subscriptions", encoded);
        return result;
    }

    private static ConsumerPartitionAssignor assignor(String name) {
        switch (name) {
            case "range": return new RangeAssignor();
            case "roundrobin": return new RoundRobinAssignor();
            case "sticky": return new StickyAssignor();
            default: return new CooperativeStickyAssignor();
        }
    }

    private static Subscription subscription(String name, JsonNode member) {
        List<String> topics = new ArrayList<>();
        member.get("topics").forEach(topic -> topics.add(topic.asText()));
        List<TopicPartition> owned = new ArrayList<>();
        member.get("owned").forEach(each -> owned.add(new TopicPartition(each.get(0).asText(), each.get(1).asInt())));
        int generation = member.get("generation").asInt();
        Optional<String> instance = Optional.ofNullable(member.get("instance").textValue());
        ConsumerPartitionAssignor assignor = assignor(name);
        if (generation >= 0) {
            String id = member.get("id").asText();
            assignor.onAssignment(new Assignment(owned), new ConsumerGroupMetadata("group", generation, id, instance));
        }
        Set<String> wanted = new LinkedHashSet<>(topics);
        boolean cooperative = name.equals("cooperative-sticky");
        Subscription subscription = new Subscription(
            topics,
            assignor.subscriptionUserData(wanted),
            cooperative ? owned : Collections.emptyList(),
            cooperative ? generation : -1,
            Optional.ofNullable(member.get("rack").textValue()));
        subscription.setGroupInstanceId(instance);
        return subscription;
    }

    private static Cluster cluster(JsonNode topics) {
        Map<String, Node> nodes = new HashMap<>();
        List<PartitionInfo> partitions = new ArrayList<>();
        topics.fields().forEachRemaining(topic -> {
            int index = 0;
            for (JsonNode racks : topic.getValue()) {
                List<Node> replicas = new ArrayList<>();
                for (JsonNode rack : racks) {
                    replicas.add(nodes.computeIfAbsent(
                        rack.asText(), label -> new Node(nodes.size(), "host", 9092, label)));
                }
                Node[] all = replicas.toArray(new Node[0]);
                partitions.add(new PartitionInfo(topic.getKey(), index++, Node.noNode(), all, all));
            }
        });
        return new Cluster("cluster", nodes.values(), partitions, Collections.emptySet(), Collections.emptySet());
    }

    private static String hex(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return HexFormat.of().formatHex(bytes);
    }
}
