package nodesync

import (
	"log/slog"

	"github.com/space-platform/space/internal/control/record"
	"github.com/space-platform/space/internal/telemetry"
)

var (
	nodeMemory   = telemetry.NewGauge("space_node_memory_bytes", "The node's memory: all of it, what sandboxes may be promised together, and what is available now.", "of")
	nodeVolume   = telemetry.NewGauge("space_node_volume_bytes", "The node's volume with disks and snapshots: all of it, and what is free.", "of")
	nodePressure = telemetry.NewGauge("space_node_volume_pressure", "How full the node's volume is: 1 for the level that holds, from 90 % and from 95 % on.", "level")
)

// tellFacts tells what has changed of a node, to the operator as well if it is the pressure of its volume.
func (n *Node) tellFacts(f record.Facts) {
	for of, bytes := range map[string]uint64{"all": f.MemoryBytes, "sandboxes": f.SandboxMemory(), "available": f.MemoryAvailableBytes} {
		nodeMemory.WithLabelValues(of).Set(float64(bytes))
	}
	for of, bytes := range map[string]uint64{"all": f.DiskBytes, "free": f.DiskFreeBytes} {
		nodeVolume.WithLabelValues(of).Set(float64(bytes))
	}
	for _, p := range []record.DiskPressure{record.DiskWarning, record.DiskRefusing} {
		level := 0.0
		if p == f.DiskPressure {
			level = 1
		}
		nodePressure.WithLabelValues(string(p)).Set(level)
	}
	switch {
	case f.DiskPressure == n.facts.DiskPressure:
	case f.DiskPressure == record.DiskFine:
		slog.Info("the node's volume has room again", "node", n.name, "free_mib", f.DiskFreeBytes/record.MiB)
	default:
		slog.Warn(f.Advice(), "node", n.name, "pressure", string(f.DiskPressure))
	}
}
