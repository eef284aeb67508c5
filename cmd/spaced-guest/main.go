// Command spaced-guest is the agent in a sandbox's machine. Without flags it's the machine's first process. With --serve-unix or --serve-fd it serves
// sessions as an ordinary process: for tests, and for the fake driver.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/space-platform/space/internal/guest/boot"
)

func main() {
	var c serveConfig
	flag.StringVar(&c.unix, "serve-unix", "", "listen on a unix socket at this path, as an ordinary process")
	flag.IntVar(&c.fd, "serve-fd", 0, "serve on this inherited descriptor, a listening unix socket, as an ordinary process")
	flag.StringVar(&c.root, "root", "/", "change the root directory first (with --serve-unix or --serve-fd)")
	flag.Parse()
	if c.unix != "" || c.fd != 0 {
		if err := c.serve(); err != nil {
			fmt.Fprintf(os.Stderr, "spaced-guest: %v\n", err)
			os.Exit(1)
		}
		return
	}
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "spaced-guest: it boots a machine as its first process; use --serve-unix to run it elsewhere")
		os.Exit(2)
	}
	boot.Halt(runMachine())
}
