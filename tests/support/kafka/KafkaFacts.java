import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.protocol.Errors;

/** Prints tables of Kafka's clients, one row per line, fields separated by tabs. */
public class KafkaFacts {
    public static void main(String[] arguments) {
        for (Errors error : Errors.values()) {
            if (error != Errors.NONE) {
                System.out.println("error\t" + error.code() + "\t" + error.name() + "\t" + classes(error));
            }
        }
        for (ConfigDef.ConfigKey key : ProducerConfig.configDef().configKeys().values()) {
            String text = key.hasDefault() ? ConfigDef.convertToString(key.defaultValue, key.type) : "(required)";
            System.out.println("setting\t" + key.name + "\t" + text);
        }
    }

    private static String classes(Errors error) {
        List<String> names = new ArrayList<>();
        for (Class<?> each = error.exception().getClass(); each != RuntimeException.class; each = each.getSuperclass()) {
            names.add(each.getSimpleName());
        }
        return String.join(",", names);
    }
}
