package space

import "fmt"

// VolumeFull is what is said of a node's volume that is too full for anything new, whoever finds that out: what is full, what goes on, and what to do. The bytes are
// those that are free and those of the volume; none of 0 is the error of a write that found no room, of a suspend, too.
func VolumeFull(free, bytes uint64) *Error {
	return Errorf(CodeCapacity, "%s; %s", VolumeLevel(free, bytes), volumeRefuses(bytes > 0))
}

// VolumeLevel says how full a node's volume is, and how to get room.
func VolumeLevel(free, bytes uint64) string {
	const advice = "delete snapshots (space snapshot ls shows what they count), sandboxes and templates that aren't needed"
	if bytes == 0 {
		return "the node's volume is full: " + advice
	}
	return fmt.Sprintf("the node's volume is full to %d %%, and %d MiB are free: %s", VolumePercent(free, bytes), free>>20, advice)
}

// VolumePercent is how full a volume is.
func VolumePercent(free, bytes uint64) uint64 {
	if bytes == 0 || free > bytes {
		return 0
	}
	return uint64(float64(bytes-free) / float64(bytes) * 100)
}

// volumeRefuses says what doesn't work on a full volume, and what does.
func volumeRefuses(suspends bool) string {
	const refuses = "no sandboxes, templates and snapshots are made, and no sandboxes started or restored, until there is room; "
	if suspends {
		return refuses + "what runs, deletes and suspends go on"
	}
	return refuses + "what runs and deletes go on"
}
