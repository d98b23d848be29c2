import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.producer.ProducerConfig;

/** Prints the settings that Java's producer finds in a properties file, one per line, between lines of the log. */
public class ReadSettings {
    public static void main(String[] arguments) throws Exception {
        Properties properties = new Properties();
        properties.load(Files.newBufferedReader(Path.of(arguments[0])));
        ProducerConfig config = new ProducerConfig(properties);
        new TreeMap<>(config.originals()).forEach((name, value) -> System.out.println("setting\t" + name + "\t" + value));
    }
}
