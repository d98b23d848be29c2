import java.io.BufferedWriter;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.Arrays;
import java.util.Locale;
import java.util.Properties;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.InvalidTopicException;
import org.apache.kafka.common.errors.OutOfOrderSequenceException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.errors.TimeoutException;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Java's client in a duel: arguments MODE SERVERS FOLDER DELIVERY_SECONDS VERSION. It sends the load of
 * tests/support/duel/load.py as tests/support/duel/worker.py does, and writes the ledger that
 * tests/support/duel/ledger.py describes.
 */
public class DuelWorker {
    private static final int PARTITIONS = 6;
    private static final int RUN = 5;
    private static final int VALUE_BYTES = 100;
    private static final long PAUSE_NS = 20_000_000;
    private static final int MOST_PENDING = 10_000;
    private static final int MOST_FAILED_IN_A_ROW = 500;
    private static final long PAUSE_AFTER_ERROR_MS = 500;

    /** The producer can no longer be used, or could not be initialized. */
    private static class ProducerOverException extends Exception {
        ProducerOverException(Throwable cause) {
            super(cause);
        }
    }

    /** What the client said about a record; offset -2: it failed. */
    private record Told(int number, int partition, long offset, Exception error) {}

    private final boolean isTransactional;
    private final String topic;
    private final int burst;
    private final String servers;
    private final Path folder;
    private final String mode;
    private final long deliveryMs;
    private final BufferedWriter ledger;
    private final ConcurrentLinkedQueue<Told> told = new ConcurrentLinkedQueue<>();
    private KafkaProducer<byte[], byte[]> producer;
    private String lane;
    private int lives;
    private int transactions;
    private int added;
    private int settled;
    private int failedInARow;
    private long nextBurst = System.nanoTime();

    private DuelWorker(String[] arguments) throws IOException {
        mode = arguments[0];
        servers = arguments[1];
        folder = Path.of(arguments[2]);
        deliveryMs = (long) (Double.parseDouble(arguments[3]) * 1000);
        isTransactional = mode.equals("transactional");
        topic = "duel-" + mode;
        burst = isTransactional ? 10 : 20;
        ledger = Files.newBufferedWriter(folder.resolve(mode + ".ledger"), StandardCharsets.US_ASCII);
    }

    private void run() throws IOException, InterruptedException {
        while (!isOver()) {
            lives++;
            lane = mode + lives;
            added = settled = failedInARow = 0;
            told.clear();
            write("L %s %s 0", lane, topic);
            try {
                open();
            } catch (KafkaException error) {
                write("# %s was not initialized: %s", lane, text(error));
                Thread.sleep(PAUSE_AFTER_ERROR_MS);
                continue;
            }
            live();
        }
        ledger.close();
    }

    private void open() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", servers);
        if (deliveryMs > 0) {
            settings.put("delivery.timeout.ms", String.valueOf(deliveryMs));
            settings.put("request.timeout.ms", String.valueOf(deliveryMs / 2));
        }
        if (isTransactional) {
            settings.put("transactional.id", "duel");
        }
        producer = new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        if (isTransactional) {
            try {
                untilDone(producer::initTransactions);
            } catch (KafkaException error) {
                producer.close();
                throw error;
            }
        }
    }

    private void live() throws IOException, InterruptedException {
        try {
            while (!isOver()) {
                if (isTransactional) {
                    transaction(++transactions);
                } else {
                    pace();
                    if (added - settled < MOST_PENDING) {
                        send();
                    }
                }
                settle();
                if (failedInARow > MOST_FAILED_IN_A_ROW) {
                    throw new ProducerOverException(new Exception(failedInARow + " records in a row failed"));
                }
            }
        } catch (ProducerOverException | RuntimeException error) {
            write("# %s is over: %s", lane, text(error));
            Thread.sleep(PAUSE_AFTER_ERROR_MS);
        } finally {
            try {
                producer.close();
            } catch (KafkaException error) {
                write("# %s: close: %s", lane, text(error));
            }
            settle();
        }
    }

    private void transaction(int number) throws IOException, InterruptedException, ProducerOverException {
        write("T %s %d %d", lane, number, added);
        try {
            producer.beginTransaction();
        } catch (RuntimeException error) {
            throw new ProducerOverException(error);
        }
        boolean isWhole = true;
        for (int i = 0; isWhole && i < 3 + number * 7 % 11; i++) {
            pace();
            isWhole = send();
        }
        if (isWhole && number % 5 != 4) {
            write("S %s %d committing", lane, number);
            write("S %s %d %s", lane, number, commit() ? "committed" : "aborted");
        } else {
            write("S %s %d aborted", lane, number);
            abort();
        }
    }

    /** Whether it was committed; otherwise it was aborted. As the documentation of KafkaProducer shows. */
    private boolean commit() throws ProducerOverException {
        try {
            untilDone(producer::commitTransaction);
            return true;
        } catch (ProducerFencedException | OutOfOrderSequenceException | AuthorizationException error) {
            throw new ProducerOverException(error);
        } catch (KafkaException error) {
            abort();
            return false;
        }
    }

    private void abort() throws ProducerOverException {
        try {
            untilDone(producer::abortTransaction);
        } catch (RuntimeException error) {
            throw new ProducerOverException(error);
        }
    }

    private void untilDone(Runnable call) {
        while (true) {
            try {
                call.run();
                return;
            } catch (TimeoutException | InterruptException error) {
                // The documentation says that the call may be repeated.
            }
        }
    }

    /** Send the next records. Whether the client accepted all of them. */
    private boolean send() throws IOException {
        int first = added;
        added += burst;
        write("+ %s %d", lane, burst);
        for (int i = first; i < first + burst; i++) {
            int number = i;
            int partition = number / RUN % PARTITIONS;
            byte[] value = new byte[VALUE_BYTES];
            Arrays.fill(value, (byte) '.');
            byte[] identity = (lane + " " + number + " ").getBytes(StandardCharsets.US_ASCII);
            System.arraycopy(identity, 0, value, 0, identity.length);
            try {
                producer.send(new ProducerRecord<>(topic, partition, null, value), (metadata, error) -> {
                    boolean isGood = error == null;
                    told.add(new Told(number, partition, isGood ? metadata.offset() : -2, error));
                });
            } catch (KafkaException | IllegalStateException error) {
                for (int refused = number; refused < first + burst; refused++) {
                    write("R %s %d", lane, refused);
                    settled++;
                    failedInARow++;
                }
                write("# %d: refused: %s", number, text(error));
                return false;
            }
        }
        return true;
    }

    private void pace() throws IOException, InterruptedException {
        nextBurst = Math.max(System.nanoTime(), nextBurst + PAUSE_NS);
        long rest = nextBurst - System.nanoTime();
        if (rest > 0) {
            Thread.sleep(rest / 1_000_000, (int) (rest % 1_000_000));
        }
        settle();
    }

    private void settle() throws IOException {
        boolean isAcknowledged = false;
        Told each;
        while ((each = told.poll()) != null) {
            settled++;
            if (each.error == null) {
                isAcknowledged = true;
                failedInARow = 0;
                ledger.write("A " + lane + " " + each.number + " " + each.partition + " " + each.offset + "\n");
            } else {
                failedInARow++;
                ledger.write((isDefinite(each.error) ? "R " : "U ") + lane + " " + each.number + "\n");
                ledger.write("# " + each.number + ": " + text(each.error) + "\n");
            }
        }
        ledger.flush();
        Path ready = folder.resolve(mode + ".ready");
        if (isAcknowledged && !Files.exists(ready)) {
            Files.createFile(ready);
        }
    }

    /** Errors of records that were certainly not written. One of an aborted transaction may have been sent before. */
    private static boolean isDefinite(Exception error) {
        return error instanceof RecordTooLargeException || error instanceof InvalidTopicException
            || error instanceof AuthorizationException;
    }

    private static String text(Throwable error) {
        return String.valueOf(error).replaceAll("[^ -~]", " ");
    }

    private void write(String format, Object... values) throws IOException {
        ledger.write(String.format(Locale.ROOT, format, values) + "\n");
        ledger.flush();
    }

    private boolean isOver() {
        return Files.exists(folder.resolve("stop"));
    }

    private static double cpuSeconds() {
        var system = (com.sun.management.OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        return system.getProcessCpuTime() / 1e9;
    }

    public static void main(String[] arguments) throws Exception {
        DuelWorker worker = new DuelWorker(arguments);
        worker.run();
        Path part = worker.folder.resolve(worker.mode + ".end-part");
        Files.writeString(part, String.format(Locale.ROOT, "%.2f %s", cpuSeconds(), arguments[4]));
        Files.move(part, worker.folder.resolve(worker.mode + ".end"), StandardCopyOption.ATOMIC_MOVE);
    }
}
