// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// QEMU's accelerators.
const (
	KVM = "kvm"
	TCG = "tcg"
)

// trialTime is how long a guest may take to run a program under KVM. One that
// runs at all takes a second or two.
const trialTime = 10 * time.Second

// accelerator is KVM if a guest is seen to run under it, and else TCG. That
// /dev/kvm exists says little: inside some virtual machines a guest under it
// stops early in its boot. What the trial showed holds until the host reboots.
func accelerator(ctx context.Context, a Assets) string {
	if !writable("/dev/kvm") {
		return TCG
	}
	note := filepath.Join(a.Cache, "accelerator")
	if found := recall(note); found != "" {
		return found
	}
	found := TCG
	if tryKVM(ctx, a) {
		found = KVM
	}
	if ctx.Err() == nil {
		remember(note, found)
	}
	return found
}

func writable(file string) bool {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err == nil {
		f.Close()
	}
	return err == nil
}

func tryKVM(ctx context.Context, a Assets) bool {
	ctx, cancel := context.WithTimeout(ctx, trialTime)
	defer cancel()
	result, err := Run(ctx, Config{Kind: QEMU, Accel: KVM, Assets: a,
		Program: "/bin/sh", Args: []string{"-c", "exit 42"}, Dir: "/"})
	return err == nil && result.ExitCode == 42
}

// bootID names the time since the host last booted.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(id))
}

// recall reads which accelerator an earlier trial found, "" if there was none.
func recall(note string) string {
	text, err := os.ReadFile(note)
	if err != nil {
		return ""
	}
	boot, found, _ := strings.Cut(strings.TrimSpace(string(text)), " ")
	if boot != bootID() || (found != KVM && found != TCG) {
		return ""
	}
	return found
}

// remember keeps what a trial found. If it cannot, the next VM tries again.
func remember(note, found string) {
	text := bootID() + " " + found + "\n"
	if os.WriteFile(note+".new", []byte(text), 0o644) == nil {
		os.Rename(note+".new", note)
	}
}
