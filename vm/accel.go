// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/paracuda/paracuda/internal/fix"
	"github.com/paracuda/paracuda/qemu"
)

// QEMU's accelerators.
const (
	KVM = "kvm"
	TCG = "tcg"
)

const (
	kvmDevice  = "/dev/kvm"
	processors = "/proc/cpuinfo"
	loadFile   = "/proc/loadavg"
	// trialTime is how long a guest may take to run a program under KVM. One that
	// runs at all takes a second or two.
	trialTime = 10 * time.Second
)

// trial finds QEMU's accelerator: KVM if a guest is seen to run under it, else TCG. That /dev/kvm
// exists proves little: inside some virtual machines a guest stops early in its boot under KVM. The
// processor's features tell most of these without a boot.
type trial struct {
	assets  Assets
	qemu    string            // QEMU's program
	device  string            // KVM's
	cpuinfo string            // /proc/cpuinfo, but for tests
	load    string            // /proc/loadavg, but for tests
	limit   time.Duration     // how long the trial may take
	warn    func(text string) // told why KVM isn't used
	step    func(what string) // told that KVM is tried
}

func (t *trial) accelerator(ctx context.Context) string {
	if err := t.possible(); err != nil {
		t.warn(fmt.Sprintf("KVM does not work here (%v): using TCG, which is slower", err))
		return TCG
	}
	note := filepath.Join(t.assets.notes(), "accelerator.json")
	f, known := recall(note, t.qemu)
	if !known || !f.holds() {
		t.step("trying whether KVM works")
		f = t.try(ctx, f.Doubt)
		if ctx.Err() != nil {
			return TCG
		}
		if f.holds() {
			remember(note, f)
		}
	}
	if f.Why != "" {
		t.warn(fmt.Sprintf("KVM does not work here (%s): using TCG, which is slower; "+
			"%sremove %s to try again", f.Why, f.again(), note))
	}
	return f.Accel
}

// possible says why KVM can't work, as far as can be seen without a boot.
func (t *trial) possible() error {
	if err := writable(t.device); err != nil {
		return fmt.Errorf("%w: %s", err, fix.KVM(err))
	}
	cpuinfo, err := os.Open(t.cpuinfo)
	if err != nil {
		return nil // a boot will tell
	}
	defer cpuinfo.Close()
	return qemu.CheckProcessor(cpuinfo)
}

func writable(file string) error {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return f.Close()
}

// busy says whether more threads want to run than there are processors.
func (t *trial) busy() bool {
	text, err := os.ReadFile(t.load)
	if err != nil {
		return false
	}
	var now float64
	if _, err := fmt.Sscan(string(text), &now); err != nil {
		return false
	}
	return now > float64(runtime.NumCPU())
}

// try runs a program under KVM. before is how long the last finding held if its trial took too
// long, else 0.
func (t *trial) try(ctx context.Context, before time.Duration) finding {
	busy := t.busy() // with others' work: the VM hasn't begun
	ctx, cancel := context.WithTimeout(ctx, t.limit)
	defer cancel()
	result, err := Run(ctx, Config{Kind: QEMU, Assets: t.assets,
		Machine: Machine{Accel: KVM},
		Program: Program{Name: "/bin/sh", Args: []string{"-c", "exit 42"}, Dir: "/"}})
	f := finding{Boot: bootID(), QEMU: t.qemu, Accel: TCG}
	switch {
	case err == nil && result.ExitCode == 42:
		f.Accel = KVM
	case err == nil:
		f.Why = fmt.Sprintf("a program in a VM ended with %d, not 42", result.ExitCode)
	case ctx.Err() != nil:
		f.Why = fmt.Sprintf("a VM ran no program within %v", t.limit)
		f.Doubt = doubt(before, busy)
		f.Until = time.Now().Add(f.Doubt)
	case errors.Is(err, errNoExit):
		f.Why = errNoExit.Error() + ": " + lastLine(err.Error())
	default: // the VM lacks something: the caller's own VM will say what
		f.Until = time.Now()
	}
	return f
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}
