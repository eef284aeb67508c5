package main

import (
	"context"
	"io"
	"time"
)

// beatPause is the time between two interrupts that an L1 gets from outside. QEMU notes what an emulated processor is to do in one word, which it changes without a lock at
// each VMRUN that has an interrupt for the guest (helper_vmrun, in 7.2): what another thread has noted at that moment is lost. If that was the clock's interrupt,
// and no other one comes, the L1 stands still for ever, or runs one guest for ever. Any further interrupt has the lost one delivered, too.
const beatPause = time.Second

// xon is the byte that tells the other end of a line to go on. It's all that a terminal's line neither keeps nor echoes.
const xon = 0x11

// beat writes xon to an L1's second serial port in each pause, until the context is done or nobody reads any more.
func beat(ctx context.Context, port io.Writer) {
	pause := time.NewTicker(beatPause)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
		if _, err := port.Write([]byte{xon}); err != nil {
			return
		}
	}
}
