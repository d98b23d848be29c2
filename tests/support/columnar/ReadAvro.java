import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.avro.Conversions;
import org.apache.avro.Schema;
import org.apache.avro.data.TimeConversions;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DatumReader;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import org.apache.avro.io.JsonEncoder;

/**
 * Reads values as Apache Avro reads them. A line of standard input is "S" and a schema, or "R" and a value in base64. Of each
 * value it prints three lines: what Avro writes for it, in base64; Avro's JSON of it; and its text with logical types.
 */
public final class ReadAvro {
    private static Schema schema;
    private static DatumReader<Object> plain;
    private static DatumReader<Object> logical;

    public static void main(String[] arguments) throws Exception {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (line.startsWith("S")) {
                useSchema(line.substring(1));
            } else {
                System.out.write(answer(Base64.getDecoder().decode(line.substring(1))).getBytes(StandardCharsets.UTF_8));
            }
        }
        System.out.flush();
    }

    private static void useSchema(String text) {
        schema = new Schema.Parser().parse(text);
        plain = new GenericDatumReader<>(schema, schema, new GenericData());
        GenericData data = new GenericData();
        data.addLogicalTypeConversion(new Conversions.DecimalConversion());
        data.addLogicalTypeConversion(new Conversions.UUIDConversion());
        data.addLogicalTypeConversion(new TimeConversions.DateConversion());
        data.addLogicalTypeConversion(new TimeConversions.TimeMillisConversion());
        data.addLogicalTypeConversion(new TimeConversions.TimeMicrosConversion());
        data.addLogicalTypeConversion(new TimeConversions.TimestampMillisConversion());
        data.addLogicalTypeConversion(new TimeConversions.TimestampMicrosConversion());
        data.addLogicalTypeConversion(new TimeConversions.TimestampNanosConversion());
        data.addLogicalTypeConversion(new TimeConversions.LocalTimestampMillisConversion());
        data.addLogicalTypeConversion(new TimeConversions.LocalTimestampMicrosConversion());
        data.addLogicalTypeConversion(new TimeConversions.LocalTimestampNanosConversion());
        logical = new GenericDatumReader<>(schema, schema, data);
    }

    private static String answer(byte[] value) throws Exception {
        Object datum = read(plain, value);
        GenericDatumWriter<Object> writer = new GenericDatumWriter<>(schema, new GenericData());
        ByteArrayOutputStream binary = new ByteArrayOutputStream();
        BinaryEncoder encoder = EncoderFactory.get().binaryEncoder(binary, null);
        writer.write(datum, encoder);
        encoder.flush();
        ByteArrayOutputStream json = new ByteArrayOutputStream();
        JsonEncoder jsonEncoder = EncoderFactory.get().jsonEncoder(schema, json);
        writer.write(datum, jsonEncoder);
        jsonEncoder.flush();
        return Base64.getEncoder().encodeToString(binary.toByteArray()) + "\n"
            + json.toString(StandardCharsets.UTF_8) + "\n"
            + read(logical, value).toString().replace("\n", " ") + "\n";
    }

    private static Object read(DatumReader<Object> reader, byte[] value) throws Exception {
        BinaryDecoder decoder = DecoderFactory.get().binaryDecoder(value, null);
        Object datum = reader.read(null, decoder);
        if (!decoder.isEnd()) {
            throw new IllegalStateException("there are bytes behind the value");
        }
        return datum;
    }
}
