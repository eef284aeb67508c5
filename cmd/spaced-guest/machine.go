package main

import (
	"context"

	"github.com/space-platform/space/internal/guest"
	"github.com/space-platform/space/internal/guest/account"
	"github.com/space-platform/space/internal/guest/boot"
	"github.com/space-platform/space/internal/guest/figures"
	"github.com/space-platform/space/internal/guest/files"
	"github.com/space-platform/space/internal/guest/machine"
	"github.com/space-platform/space/internal/guest/process"
)

// runMachine boots and serves for as long as the machine lives. It returns only an error.
func runMachine() error {
	booted, err := boot.Run()
	if err != nil {
		return err
	}
	m, err := machine.New(booted.Freezer, booted.Covers)
	if err != nil {
		return err
	}
	reaper := process.NewReaper()
	go reaper.Run() // until the machine ends
	s := guest.Server{
		Sessions: process.NewTable(reaper, process.Attributes{First: true, Cgroup: booted.Sessions}), Files: files.NewService(account.System), Figures: figures.Here,
		Hooks: m.Hooks(), WriteOut: m.WriteOut, Freeze: m.Freeze, Quiesce: m.Quiesce,
	}
	return s.Serve(context.Background(), booted.Port)
}
