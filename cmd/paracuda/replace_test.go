// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/paracuda/paracuda/cmd/paracuda/cli"
	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/gpubackend/remains"
	"github.com/paracuda/paracuda/gpubackend/wire"
)

// install replaces the program at a path, as a package's upgrade does.
func install(t *testing.T, path string, program []byte) os.FileInfo {
	t.Helper()
	if err := os.WriteFile(path+".new", program, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// executes says whether the device process is that program.
func (v *keptVM) executes(program os.FileInfo) bool {
	v.t.Helper()
	now, err := os.Stat(fmt.Sprintf("/proc/%d/exe", v.child()))
	return err == nil && os.SameFile(now, program)
}

// TestReplacedByWhatIsInstalled: the version that is installed by then goes on, with the same
// worker. If it can't, the version before it goes on. A crash doesn't change the version, whatever
// was installed meanwhile.
func TestReplacedByWhatIsInstalled(t *testing.T) {
	this, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "paracuda")
	first := install(t, path, this)
	v := newKeptVMOf(t, path)
	v.must(wire.ControlOpen, 0, 0)
	workers := v.workers()
	second := install(t, path, this)
	v.kill()
	v.must(wire.ControlPing, 0, 0)
	if !v.executes(first) {
		t.Error("after a crash another version goes on")
	}
	replace := func(goesOn os.FileInfo) {
		t.Helper()
		if err := replaceDevice(v.control); err != nil {
			t.Fatalf("%v\n%s", err, v.log)
		}
		v.must(wire.ControlPing, 0, 0)
		if !v.executes(goesOn) {
			t.Errorf("another program goes on:\n%s", v.log)
		}
		if now := v.workers(); len(now) != 1 || now[0] != workers[0] { // the same process
			t.Errorf("the worker was %v and is %v", workers, now)
		}
	}
	replace(second)
	v.kill()
	v.must(wire.ControlPing, 0, 0)
	if !v.executes(second) {
		t.Error("after a crash another version goes on")
	}
	install(t, path, []byte("#!/bin/sh\nexit 1\n"))
	v.kill()
	v.must(wire.ControlPing, 0, 0)
	if !v.executes(second) {
		t.Error("after a crash what was installed since goes on")
	}
	replace(second)
	if !strings.Contains(v.log.String(), "didn't go on: the version before it does") {
		t.Errorf("nothing is said of that:\n%s", v.log)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	replace(second)
	if !strings.Contains(v.log.String(), "can't go on: the version before it does") {
		t.Errorf("nothing is said of a program that is gone:\n%s", v.log)
	}
	v.end()
}

// TestOtherProtocolIsLeft: a version with another protocol than the VM's driver or its workers
// leaves the VM to the earlier version. Any version takes a VM that has noted neither.
func TestOtherProtocolIsLeft(t *testing.T) {
	for f, want := range map[*remains.Facts]bool{nil: true, {}: true,
		{Protocol: wire.Version}: true, {Protocol: wire.Version + 1}: false,
		{Protocol: wire.Version - 1}: false, {Between: handover.Protocol}: true,
		{Protocol: wire.Version, Between: handover.Protocol + 1}: false,
		{Protocol: wire.Version, Between: handover.Protocol - 1}: false} {
		if err := understood(f); (err == nil) != want {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

// TestReplaceNeedsAKeeper, and a socket.
func TestReplaceNeedsAKeeper(t *testing.T) {
	dir := t.TempDir()
	control, gpu := filepath.Join(dir, "control"), filepath.Join(dir, "gpu")
	if err := replaceDevice(control); err == nil || !strings.Contains(err.Error(),
		"no device answers") {
		t.Errorf("without a device: %v", err)
	}
	if err := replaceDevice(""); cli.Status(err) != 2 {
		t.Errorf("without a socket: %v", err)
	}
	ended := startDeviceCommand("--socket-path", gpu, "--control", control)
	dial(t, gpu).Close()
	if err := replaceDevice(control); err == nil || !strings.Contains(err.Error(), "no keeper") {
		t.Errorf("without a keeper: %v", err)
	}
	use(t, dial(t, gpu)).Sock.Close()
	if err := wait(t, ended); err != nil {
		t.Error(err)
	}
}
