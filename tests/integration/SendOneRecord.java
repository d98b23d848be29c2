import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Sends a record with each properties file: arguments TOPIC FILE... Fails with the first error. */
public class SendOneRecord {
    public static void main(String[] arguments) throws Exception {
        for (String file : List.of(arguments).subList(1, arguments.length)) {
            Properties properties = new Properties();
            try (var reader = Files.newBufferedReader(Path.of(file), StandardCharsets.UTF_8)) {
                properties.load(reader);
            }
            properties.put("max.block.ms", "20000");
            try (var producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
                producer.send(new ProducerRecord<>(arguments[0], file)).get();
            }
        }
    }
}
