// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/paracuda/paracuda/cmd/paracuda/children"
	"github.com/paracuda/paracuda/cmd/paracuda/logs"
	"github.com/paracuda/paracuda/gpubackend/device"
	"github.com/paracuda/paracuda/gpubackend/handover"
)

// TestLogsTellTheVersion of the device process, a worker and a mover.
func TestLogsTellTheVersion(t *testing.T) {
	_, log := startDevice(t, t.TempDir())
	within(t, "the device process's version", func() bool {
		return strings.Contains(log.String(), "version="+version)
	})
	from, to, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	said := &lines{}
	go func() {
		b := make([]byte, 4096)
		for n, err := from.Read(b); err == nil; n, err = from.Read(b) {
			_, _ = said.Write(b[:n])
		}
	}()
	text := logrus.New()
	text.SetOutput(io.Discard) // that there is no sandbox
	s, err := children.New(children.Config{
		GPU: gpuSoft, Logs: logs.Flags{Level: "debug"}, Log: logrus.NewEntry(text), Stderr: to,
	})
	if err != nil {
		t.Fatal(err)
	}
	for role, spawn := range map[string]func(*os.File) (device.Process, error){
		"worker": s.Worker, "mover": s.Mover,
	} {
		conn, theirs, err := handover.Pair()
		if err != nil {
			t.Fatal(err)
		}
		p, err := spawn(theirs)
		if err != nil {
			t.Fatal(err)
		}
		within(t, "the version of a "+role, func() bool {
			for line := range strings.Lines(said.String()) {
				if strings.Contains(line, "role="+role) &&
					strings.Contains(line, "version="+version) {
					return true
				}
			}
			return false
		})
		p.Kill()
		_ = p.Wait()
		theirs.Close()
		conn.Close()
	}
	to.Close()
}
