import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.HashMap;
import java.util.Map;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.apicurio.registry.serde.avro.AvroKafkaDeserializer;
import io.apicurio.registry.serde.avro.AvroKafkaSerializer;
import io.apicurio.registry.serde.jsonschema.JsonSchemaKafkaDeserializer;
import io.apicurio.registry.serde.jsonschema.JsonSchemaKafkaSerializer;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import org.apache.avro.io.JsonEncoder;
import org.apache.avro.generic.GenericRecord;

/**
 * Java's serializers and deserializers of Avro and of JSON Schema with a registry, in Confluent's wire format.
 *
 * The argument is the registry's address. A request is a line of words in base64: "write", topic, schema and a value in
 * Avro's JSON; or "read", topic and bytes; or "write-json", topic and JSON, by the schema that the topic's subject has;
 * or "read-json", topic and bytes. The reply is a line: the bytes, or the value in JSON, in base64.
 */
public final class RegistrySerdes {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> options = Map.of(
            "apicurio.registry.url", arguments[0],
            "apicurio.registry.as-confluent", true,
            "apicurio.registry.use-id", "contentId",
            "apicurio.registry.auto-register", true,
            "apicurio.registry.headers.enabled", false);
        Map<String, Object> found = new HashMap<>(options);
        found.putAll(Map.of(
            "apicurio.registry.auto-register", false,
            "apicurio.registry.find-latest", true,
            "apicurio.registry.deserializer.json.return-class", JsonNode.class.getName()));
        ObjectMapper mapper = new ObjectMapper();
        try (AvroKafkaSerializer<GenericRecord> serializer = new AvroKafkaSerializer<>();
                AvroKafkaDeserializer<GenericRecord> deserializer = new AvroKafkaDeserializer<>();
                JsonSchemaKafkaSerializer<JsonNode> jsonSerializer = new JsonSchemaKafkaSerializer<>();
                JsonSchemaKafkaDeserializer<JsonNode> jsonDeserializer = new JsonSchemaKafkaDeserializer<>()) {
            serializer.configure(options, false);
            deserializer.configure(options, false);
            jsonSerializer.configure(found, false);
            jsonDeserializer.configure(found, false);
            BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
            PrintStream replies = System.out;
            System.setOut(new PrintStream(OutputStream.nullOutputStream()));
            for (String line = requests.readLine(); line != null; line = requests.readLine()) {
                String[] words = line.split(" ");
                String topic = text(words[1]);
                byte[] reply = switch (text(words[0])) {
                    case "write" -> serializer.serialize(topic, value(text(words[2]), text(words[3])));
                    case "read" -> json(deserializer.deserialize(topic, bytes(words[2])));
                    case "write-json" -> jsonSerializer.serialize(topic, mapper.readTree(bytes(words[2])));
                    case "read-json" -> mapper.writeValueAsBytes(jsonDeserializer.deserialize(topic, bytes(words[2])));
                    default -> throw new IllegalArgumentException(text(words[0]));
                };
                replies.println(Base64.getEncoder().encodeToString(reply));
                replies.flush();
            }
        }
    }

    private static byte[] bytes(String word) {
        return Base64.getDecoder().decode(word);
    }

    private static String text(String word) {
        return new String(bytes(word), StandardCharsets.UTF_8);
    }

    private static GenericRecord value(String schemaText, String json) throws Exception {
        Schema schema = new Schema.Parser().parse(schemaText);
        return new GenericDatumReader<GenericRecord>(schema).read(null, DecoderFactory.get().jsonDecoder(schema, json));
    }

    private static byte[] json(GenericRecord record) throws Exception {
        ByteArrayOutputStream target = new ByteArrayOutputStream();
        JsonEncoder encoder = EncoderFactory.get().jsonEncoder(record.getSchema(), target);
        new GenericDatumWriter<GenericRecord>(record.getSchema()).write(record, encoder);
        encoder.flush();
        return target.toByteArray();
    }
}
