import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.kafka.common.metrics.KafkaMetric;
import org.apache.kafka.common.metrics.MetricsReporter;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.telemetry.ClientTelemetry;
import org.apache.kafka.server.telemetry.ClientTelemetryPayload;
import org.apache.kafka.server.telemetry.ClientTelemetryReceiver;

/**
 * A metrics reporter of a broker that writes each push of a client to a file, as the broker has decompressed it:
 * NUMBER,CLIENT ID,INSTANCE ID,TERMINATING in the folder of the property telemetry.receiver.folder.
 */
@SuppressWarnings("deprecation")
public class TelemetryReceiver implements MetricsReporter, ClientTelemetry, ClientTelemetryReceiver {
    private final AtomicInteger count = new AtomicInteger();
    private Path folder;

    @Override
    public void configure(Map<String, ?> configs) {
        folder = Path.of((String) configs.get("telemetry.receiver.folder"));
    }

    @Override
    public ClientTelemetryReceiver clientReceiver() {
        return this;
    }

    @Override
    public void exportMetrics(AuthorizableRequestContext context, ClientTelemetryPayload payload) {
        ByteBuffer data = payload.data().duplicate();
        byte[] bytes = new byte[data.remaining()];
        data.get(bytes);
        String name = String.format("%06d,%s,%s,%s", count.incrementAndGet(), context.clientId(),
            payload.clientInstanceId(), payload.isTerminating());
        try {
            Path unfinished = Files.write(folder.resolve("." + name), bytes);
            Files.move(unfinished, folder.resolve(name), StandardCopyOption.ATOMIC_MOVE);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    @Override
    public void init(List<KafkaMetric> metrics) {}

    @Override
    public void metricChange(KafkaMetric metric) {}

    @Override
    public void metricRemoval(KafkaMetric metric) {}

    @Override
    public void close() {}
}
