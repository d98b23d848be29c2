import java.util.Properties;
import java.util.TreeSet;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringSerializer;

/** Sends a record to a topic and prints the metrics of the producer, as lines "GROUP NAME TAG,TAG". Arguments: SERVERS TOPIC. */
public class ListProducerMetrics {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", arguments[0]);
        properties.put("max.block.ms", "20000");
        try (var producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>(arguments[1], "value")).get();
            for (var name : producer.metrics().keySet()) {
                var tags = String.join(",", new TreeSet<>(name.tags().keySet()));
                System.out.println(name.group() + " " + name.name() + " " + tags);
            }
        }
    }
}
