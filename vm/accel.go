// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

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
	// trialTime is how long a guest may take to run a program under KVM. One that
	// runs at all takes a second or two.
	trialTime = 10 * time.Second
)

// trial finds QEMU's accelerator: KVM if a guest is seen to run under it, and
// else TCG. That /dev/kvm exists says little: inside some virtual machines a
// guest under it stops early in its boot. What the processor offers tells most
// of these without a boot.
type trial struct {
	assets  Assets
	qemu    string            // QEMU's program
	device  string            // KVM's
	cpuinfo string            // the file that tells of the processors
	limit   time.Duration     // how long it may take
	warn    func(text string) // told why it is not KVM
}

func (t *trial) accelerator(ctx context.Context) string {
	if err := t.possible(); err != nil {
		t.warn(fmt.Sprintf("KVM does not work here (%v): using TCG, which is slower", err))
		return TCG
	}
	note := filepath.Join(t.assets.Cache, "accelerator.json")
	f, known := recall(note, t.qemu)
	if !known {
		f = t.try(ctx)
		if ctx.Err() != nil {
			return TCG
		}
		if f.holds() {
			remember(note, f)
		}
	}
	if f.Why != "" {
		t.warn(fmt.Sprintf("KVM does not work here (%s): using TCG, which is slower; "+
			"remove %s to try again", f.Why, note))
	}
	return f.Accel
}

// possible says why KVM can't work, as far as can be seen without a boot.
func (t *trial) possible() error {
	if err := writable(t.device); err != nil {
		return err
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

// try runs a program under KVM.
func (t *trial) try(ctx context.Context) finding {
	ctx, cancel := context.WithTimeout(ctx, t.limit)
	defer cancel()
	result, err := Run(ctx, Config{Kind: QEMU, Accel: KVM, Assets: t.assets,
		Program: "/bin/sh", Args: []string{"-c", "exit 42"}, Dir: "/"})
	f := finding{Boot: bootID(), QEMU: t.qemu, Accel: TCG}
	switch {
	case err == nil && result.ExitCode == 42:
		f.Accel = KVM
	case err == nil:
		f.Why = fmt.Sprintf("a program in a VM ended with %d, not 42", result.ExitCode)
	case ctx.Err() != nil:
		f.Why = fmt.Sprintf("a VM ran no program within %v", t.limit)
		f.Until = time.Now().Add(doubtTime)
	case errors.Is(err, errNoExit):
		f.Why = errNoExit.Error() + ": " + lastLine(err.Error())
	default: // the VM lacks something, which the caller's will say too
		f.Until = time.Now()
	}
	return f
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}
