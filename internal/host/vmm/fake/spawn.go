package fake

import (
	"context"
	"fmt"
	"os"

	"github.com/space-platform/space/internal/host/vmm"
	"github.com/space-platform/space/internal/host/vmm/monitor"
)

// listenAndExecute makes one process of the two things that are needed. It listens on descriptor 3, so that the socket's credentials are this
// process's, which spaced-guest doesn't do with a socket that it inherits. Then it executes descriptor 4: in an enclosure there may be
// no directory from which the program could be executed by name. Perl is in every Debian system.
const listenAndExecute = `
$^F = 255; # descriptors stay open
open(my $s, "+<&=", 3) or die "socket: $!";
listen($s, 16) or die "listen: $!";
my @argv = ("spaced-guest", "--serve-fd", "3");
my @env = map { "$_=$ENV{$_}" } keys %ENV;
my ($argv, $env, $none) = (pack("p*", @argv, undef), pack("p*", @env, undef), "");
syscall(322, 4, $none, $argv, $env, 0x1000); # execveat, AT_EMPTY_PATH
die "execute: $!";
`

// spawn starts the agent in the enclosure.
func (d *Driver) spawn(ctx context.Context, e vmm.Enclosure, link string) (*monitor.Process, *monitor.Said, error) {
	program, err := os.Open(d.guest)
	if err != nil {
		return nil, nil, err
	}
	defer program.Close()
	socket, err := monitor.Bind(link)
	if err != nil {
		return nil, nil, err
	}
	defer socket.Close()
	said, out, err := monitor.NewSaid()
	if err != nil {
		return nil, nil, err
	}
	defer out.Close()
	p, err := e.Starter.Start(ctx, vmm.Command{
		Path: "/usr/bin/perl", Args: []string{"-e", listenAndExecute}, Files: []*os.File{socket, program}, Log: out,
	})
	if err != nil {
		said.Close()
		return nil, nil, fmt.Errorf("start the agent: %w", err)
	}
	return monitor.Adopt(p, e.UID, d.bootID), said, nil
}
