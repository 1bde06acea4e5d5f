import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;

import com.google.protobuf.DescriptorProtos.FileDescriptorProto;
import com.google.protobuf.DescriptorProtos.FileDescriptorSet;
import com.google.protobuf.Descriptors.Descriptor;
import com.google.protobuf.Descriptors.FileDescriptor;
import com.google.protobuf.DynamicMessage;
import com.google.protobuf.Message;
import io.apicurio.registry.serde.protobuf.ProtobufKafkaDeserializer;
import io.apicurio.registry.serde.protobuf.ProtobufKafkaSerializer;

/**
 * Java's serializer and deserializer of Protobuf with a registry, in Confluent's wire format.
 *
 * The argument is the registry's address. A request is a line of words in base64: "write" or "read", topic, a
 * FileDescriptorSet whose files come after those that they import, the full name of a message type of the last file, and
 * bytes: a message to write, or what was written. "write-latest" writes by the latest schema that the topic's subject
 * has. The reply is a line in base64: what was written, or the message.
 */
public final class RegistryProtobuf {
    private static Descriptor wanted;

    /** Stands for the class that protoc would generate for the type of the request. */
    public static final class Generated {
        public static Message parseFrom(InputStream content) throws IOException {
            return DynamicMessage.parseFrom(wanted, content);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Map<String, Object> options = Map.of(
            "apicurio.registry.url", arguments[0],
            "apicurio.registry.use-id", "contentId",
            "apicurio.registry.auto-register", true,
            "apicurio.registry.serde.validation-enabled", false, // it does not find types that are in others
            "apicurio.registry.serde.send-type-ref", false,
            "apicurio.registry.serde.send-indexes", true,
            "apicurio.registry.serde.read-type-ref", false,
            "apicurio.registry.serde.read-indexes", true,
            "apicurio.registry.deserializer.value.return-class", Generated.class.getName());
        Map<String, Object> found = new HashMap<>(options);
        found.putAll(Map.of("apicurio.registry.auto-register", false, "apicurio.registry.find-latest", true));
        try (ProtobufKafkaDeserializer<Message> deserializer = new ProtobufKafkaDeserializer<>()) {
            deserializer.configure(options, false);
            BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
            PrintStream replies = System.out;
            System.setOut(new PrintStream(OutputStream.nullOutputStream()));
            for (String line = requests.readLine(); line != null; line = requests.readLine()) {
                String[] words = line.split(" ");
                String topic = text(words[1]);
                wanted = type(FileDescriptorSet.parseFrom(bytes(words[2])), text(words[3]));
                byte[] content = bytes(words[4]);
                byte[] reply = switch (text(words[0])) {
                    case "write" -> written(options, topic, DynamicMessage.parseFrom(wanted, content));
                    case "write-latest" -> written(found, topic, DynamicMessage.parseFrom(wanted, content));
                    case "read" -> deserializer.deserialize(topic, content).toByteArray();
                    default -> throw new IllegalArgumentException(text(words[0]));
                };
                replies.println(Base64.getEncoder().encodeToString(reply));
                replies.flush();
            }
        }
    }

    /** By a serializer of its own: one that knows a schema does not register it for another topic. */
    private static byte[] written(Map<String, Object> options, String topic, Message message) {
        try (ProtobufKafkaSerializer<Message> serializer = new ProtobufKafkaSerializer<>()) {
            serializer.configure(options, false);
            return serializer.serialize(topic, message);
        }
    }

    private static byte[] bytes(String word) {
        return Base64.getDecoder().decode(word);
    }

    private static String text(String word) {
        return new String(bytes(word), StandardCharsets.UTF_8);
    }

    private static Descriptor type(FileDescriptorSet files, String name) throws Exception {
        Map<String, FileDescriptor> built = new HashMap<>();
        FileDescriptor last = null;
        for (FileDescriptorProto file : files.getFileList()) {
            FileDescriptor[] imported = file.getDependencyList().stream().map(built::get).toArray(FileDescriptor[]::new);
            last = FileDescriptor.buildFrom(file, imported);
            built.put(file.getName(), last);
        }
        String prefix = last.getPackage().isEmpty() ? "" : last.getPackage() + ".";
        String[] parts = name.substring(prefix.length()).split("\\.");
        Descriptor found = last.findMessageTypeByName(parts[0]);
        for (int at = 1; at < parts.length; at++) {
            found = found.findNestedTypeByName(parts[at]);
        }
        return found;
    }
}
