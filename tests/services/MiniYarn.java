import java.io.File;
import java.io.FileOutputStream;
import java.io.OutputStream;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;

import org.apache.hadoop.yarn.conf.YarnConfiguration;
import org.apache.hadoop.yarn.server.MiniYARNCluster;

/** A resource manager and some node managers, until standard input ends: MiniYarn FOLDER NODES. */
public final class MiniYarn {
    public static void main(String[] arguments) throws Exception {
        File folder = new File(arguments[0]);
        int nodes = Integer.parseInt(arguments[1]);
        MiniYARNCluster cluster = new MiniYARNCluster("mainstay", 1, nodes, 1, 1);
        cluster.init(settings());
        cluster.start();
        if (!cluster.waitForNodeManagersToConnect(120_000)) {
            throw new IllegalStateException("the node managers did not come in");
        }
        write(cluster.getConfig(), folder);
        while (System.in.read() >= 0) {
            continue;
        }
        cluster.stop();
        System.exit(0);
    }

    private static YarnConfiguration settings() {
        YarnConfiguration found = new YarnConfiguration();
        // The file with the queues is not among the jars.
        String queues = "yarn.scheduler.capacity.";
        found.set(queues + "root.queues", "default");
        found.set(queues + "root.default.capacity", "100");
        found.set(queues + "maximum-am-resource-percent", "1.0");
        found.setInt("yarn.scheduler.minimum-allocation-mb", 128);
        found.setInt("yarn.nodemanager.resource.memory-mb", 4096);
        found.setInt("yarn.minicluster.yarn.nodemanager.resource.memory-mb", 4096);
        found.setInt("yarn.nodemanager.resource.cpu-vcores", 4);
        found.setBoolean("yarn.nodemanager.pmem-check-enabled", false);
        found.setBoolean("yarn.nodemanager.vmem-check-enabled", false);
        found.set(
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage", "99.9");
        return found;
    }

    /** Under its name only when it is whole: who waits for the file may read it at once. */
    private static void write(org.apache.hadoop.conf.Configuration found, File folder)
            throws Exception {
        File draft = new File(folder, "draft.xml");
        try (OutputStream out = new FileOutputStream(draft)) {
            found.writeXml(out);
        }
        Files.move(
            draft.toPath(),
            new File(folder, "yarn-site.xml").toPath(),
            StandardCopyOption.ATOMIC_MOVE);
    }
}
