import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.File;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;

/**
 * Encodes and decodes messages with Apache Kafka's own generated classes. The arguments are one folder of jars for
 * each Kafka version; every version has its own class loader and is used through reflection.
 *
 * Requests on standard input, answers on standard output, both big-endian:
 * 'R' name: for each Kafka version its lowest and highest version of the message (two shorts; 0, -1 if unknown).
 * 'X' kafka (byte) name version (short) json data: 0, the bytes of the message that the JSON describes, the
 * bytes of the message that was decoded from data, the JSON of that message; or 1 and the error. Messages
 * without a JSON converter (those of Kafka Streams) have no first bytes, and {} for JSON.
 * Strings and bytes have an int length, followed by that many bytes.
 */
public final class KafkaOracle {
    private static final String COMMON = "org.apache.kafka.common.";

    private static final String[] PACKAGES = {
        "common.message.",
        "common.metadata.",
        "coordinator.group.generated.",
        "coordinator.share.generated.",
        "coordinator.transaction.generated.",
        "raft.generated.",
        "server.log.remote.metadata.storage.generated.",
        "streams.internals.generated.",
    };

    private final ClassLoader loader;
    private final Object mapper;
    private final Class<?> accessor;
    private final Class<?> cache;

    private KafkaOracle(File folder) throws Exception {
        List<URL> jars = new ArrayList<>();
        for (File jar : folder.listFiles((where, name) -> name.endsWith(".jar"))) {
            jars.add(jar.toURI().toURL());
        }
        loader = new URLClassLoader(jars.toArray(new URL[0]), ClassLoader.getPlatformClassLoader());
        mapper = loader.loadClass("com.fasterxml.jackson.databind.ObjectMapper").getConstructor().newInstance();
        Class<?> parser = loader.loadClass("com.fasterxml.jackson.core.JsonParser$Feature");
        Object lenient = parser.getField("ALLOW_NON_NUMERIC_NUMBERS").get(null);
        mapper.getClass().getMethod("configure", parser, boolean.class).invoke(mapper, lenient, true);
        accessor = loader.loadClass(COMMON + "protocol.ByteBufferAccessor");
        cache = loader.loadClass(COMMON + "protocol.ObjectSerializationCache");
    }

    private Class<?> message(String name) throws ClassNotFoundException {
        for (String where : PACKAGES) {
            try {
                return loader.loadClass("org.apache.kafka." + where + name);
            } catch (ClassNotFoundException e) {
                // The class may be in the next package.
            }
        }
        throw new ClassNotFoundException(name);
    }

    private short bound(String name, String which, int otherwise) throws Exception {
        try {
            return message(name).getField(which + "_SUPPORTED_VERSION").getShort(null);
        } catch (ClassNotFoundException e) {
            return (short) otherwise;
        }
    }

    private byte[] encode(Object message, short version) throws Exception {
        Object sizes = cache.getConstructor().newInstance();
        Class<?> type = loader.loadClass(COMMON + "protocol.Message");
        int size = (int) type.getMethod("size", cache, short.class).invoke(message, sizes, version);
        ByteBuffer buffer = ByteBuffer.allocate(size);
        Object writer = accessor.getConstructor(ByteBuffer.class).newInstance(buffer);
        Class<?> writable = loader.loadClass(COMMON + "protocol.Writable");
        type.getMethod("write", writable, cache, short.class).invoke(message, writer, sizes, version);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException("size() said " + buffer.remaining() + " bytes too many");
        }
        return buffer.array();
    }

    private byte[][] exchange(String name, short version, byte[] json, byte[] data) throws Exception {
        Class<?> type = message(name);
        ByteBuffer buffer = ByteBuffer.wrap(data);
        Object reader = accessor.getConstructor(ByteBuffer.class).newInstance(buffer);
        Class<?> readable = loader.loadClass(COMMON + "protocol.Readable");
        Object decoded = type.getConstructor(readable, short.class).newInstance(reader, version);
        if (buffer.hasRemaining()) {
            throw new IllegalStateException(buffer.remaining() + " bytes were left");
        }
        Class<?> converter;
        try {
            converter = message(name + "JsonConverter");
        } catch (ClassNotFoundException e) {
            return new byte[][] {{}, encode(decoded, version), {'{', '}'}};
        }
        Class<?> node = loader.loadClass("com.fasterxml.jackson.databind.JsonNode");
        Object tree = mapper.getClass().getMethod("readTree", byte[].class).invoke(mapper, (Object) json);
        Object described = converter.getMethod("read", node, short.class).invoke(null, tree, version);
        Object written = converter.getMethod("write", type, short.class, boolean.class)
            .invoke(null, decoded, version, false);
        return new byte[][] {encode(described, version), encode(decoded, version), written.toString().getBytes("UTF-8")};
    }

    private static byte[] read(DataInputStream in) throws IOException {
        return in.readNBytes(in.readInt());
    }

    private static void write(DataOutputStream out, byte[] data) throws IOException {
        out.writeInt(data.length);
        out.write(data);
    }

    public static void main(String[] folders) throws Exception {
        List<KafkaOracle> oracles = new ArrayList<>();
        for (String folder : folders) {
            oracles.add(new KafkaOracle(new File(folder)));
        }
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in));
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out));
        while (true) {
            int command = in.read();
            if (command < 0) {
                return;
            }
            if (command == 'R') {
                String name = new String(read(in), "UTF-8");
                for (KafkaOracle oracle : oracles) {
                    out.writeShort(oracle.bound(name, "LOWEST", 0));
                    out.writeShort(oracle.bound(name, "HIGHEST", -1));
                }
            } else {
                KafkaOracle oracle = oracles.get(in.read());
                String name = new String(read(in), "UTF-8");
                short version = in.readShort();
                byte[] json = read(in);
                byte[] data = read(in);
                try {
                    byte[][] answers = oracle.exchange(name, version, json, data);
                    out.writeByte(0);
                    for (byte[] answer : answers) {
                        write(out, answer);
                    }
                } catch (Exception e) {
                    Throwable cause = e instanceof InvocationTargetException ? e.getCause() : e;
                    out.writeByte(1);
                    write(out, cause.toString().getBytes("UTF-8"));
                }
            }
            out.flush();
        }
    }
}
