import java.nio.charset.StandardCharsets;

import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.serialization.SimpleStringSchema;
import org.apache.flink.api.common.typeinfo.Types;
import org.apache.flink.api.connector.source.util.ratelimit.RateLimiterStrategy;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.connector.base.DeliveryGuarantee;
import org.apache.flink.connector.datagen.source.DataGeneratorSource;
import org.apache.flink.connector.datagen.source.GeneratorFunction;
import org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema;
import org.apache.flink.connector.kafka.sink.KafkaSink;
import org.apache.flink.connector.kafka.sink.TransactionNamingStrategy;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;

/**
 * Writes the numbers from 0 on, each once, to the topic "numbers", with the sink of the guarantee "exactly once".
 * Arguments: the brokers, how many numbers, how many a second, the naming strategy, the folder of the checkpoints, and
 * the checkpoint to go on from, if there is one.
 */
public final class FlinkNumbers {
    private FlinkNumbers() {}

    public static void main(String[] arguments) throws Exception {
        Configuration settings = new Configuration();
        settings.setString("execution.checkpointing.interval", "400 ms");
        settings.setString("execution.checkpointing.dir", "file://" + arguments[4]);
        settings.setString("execution.checkpointing.externalized-checkpoint-retention", "RETAIN_ON_CANCELLATION");
        settings.setString("execution.checkpointing.num-retained", "3");
        settings.setString("restart-strategy.type", "disable");
        settings.setString("parallelism.default", "2");
        settings.setString("rest.port", "0");
        if (arguments.length > 5) {
            settings.setString("execution.state-recovery.path", arguments[5]);
        }
        StreamExecutionEnvironment flink = StreamExecutionEnvironment.getExecutionEnvironment(settings);
        DataGeneratorSource<String> numbers = new DataGeneratorSource<>(
                (GeneratorFunction<Long, String>) number -> Long.toString(number),
                Long.parseLong(arguments[1]),
                RateLimiterStrategy.perSecond(Double.parseDouble(arguments[2])),
                Types.STRING);
        KafkaSink<String> sink = KafkaSink.<String>builder()
                .setBootstrapServers(arguments[0])
                .setDeliveryGuarantee(DeliveryGuarantee.EXACTLY_ONCE)
                .setTransactionalIdPrefix("numbers")
                .setTransactionNamingStrategy(TransactionNamingStrategy.valueOf(arguments[3]))
                .setProperty("transaction.timeout.ms", "600000")
                .setRecordSerializer(KafkaRecordSerializationSchema.<String>builder()
                        .setTopic("numbers")
                        .setKeySerializationSchema(new SimpleStringSchema(StandardCharsets.UTF_8))
                        .setValueSerializationSchema(new SimpleStringSchema(StandardCharsets.UTF_8))
                        .build())
                .build();
        flink.fromSource(numbers, WatermarkStrategy.noWatermarks(), "numbers").uid("numbers").sinkTo(sink).uid("sink");
        flink.execute("numbers");
        System.out.println("ENDED");
    }
}
