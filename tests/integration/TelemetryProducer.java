import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Sends a record and closes once a push has arrived: arguments BOOTSTRAP_SERVERS TOPIC CLIENT_ID FOLDER, which is
 * that of the receiver. Prints the client instance id.
 */
public class TelemetryProducer {
    public static void main(String[] arguments) throws Exception {
        Map<String, Object> properties = Map.of("bootstrap.servers", arguments[0], "client.id", arguments[2]);
        var serializer = new StringSerializer();
        try (var producer = new KafkaProducer<String, String>(properties, serializer, serializer)) {
            producer.send(new ProducerRecord<>(arguments[1], "a record of the Java client")).get();
            System.out.println(producer.clientInstanceId(Duration.ofSeconds(30)));
            boolean isThere = false;
            for (long end = System.nanoTime() + 30_000_000_000L; !isThere && System.nanoTime() < end; ) {
                Thread.sleep(50);
                try (var files = Files.list(Path.of(arguments[3]))) {
                    isThere = files.anyMatch(file -> file.getFileName().toString().contains("," + arguments[2] + ","));
                }
            }
        }
    }
}
