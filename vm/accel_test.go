// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// newTrial makes a trial of a QEMU that is a shell script, and the list of what
// it warns of.
func newTrial(t *testing.T, script string) (*trial, *[]string) {
	t.Helper()
	a := Assets{Cache: t.TempDir(), Build: t.TempDir()}
	if err := os.Rename(fakeKernel(t), filepath.Join(a.Cache, "linux-6.1")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(a.Build, "guest/init"), "init")
	qemu, kvm := filepath.Join(a.Cache, "qemu"), filepath.Join(a.Cache, "kvm")
	write(t, kvm, "")
	program(t, filepath.Join(a.Cache, "qemu-11/virtiofsd"), "exec sleep 100")
	setQEMU(t, qemu, script)
	t.Setenv("PARACUDA_QEMU", qemu)
	var said []string
	return &trial{assets: a, qemu: qemu, device: kvm, limit: 10 * time.Second,
		warn: func(text string) { said = append(said, text) }}, &said
}

func program(t *testing.T, file, script string) {
	t.Helper()
	write(t, file, "#!/bin/sh\n"+script+"\n")
	if err := os.Chmod(file, 0o755); err != nil {
		t.Fatal(err)
	}
}

// setQEMU makes QEMU's program anew. It counts its VMs in a file.
func setQEMU(t *testing.T, qemu, script string) {
	t.Helper()
	program(t, qemu, `[ "$1" != --version ] || { echo "QEMU emulator version 11.0.0"; exit; }
echo >>`+qemu+`.count
`+script)
}

// choose returns what a trial found, and how many VMs that has taken by now.
func (t *trial) choose(test *testing.T) (string, int) {
	test.Helper()
	found := t.accelerator(context.Background())
	text, _ := os.ReadFile(t.qemu + ".count")
	return found, len(text)
}

func TestKVMThatFailsIsSaidEachTime(t *testing.T) {
	trial, said := newTrial(t, "echo 'booting'; echo 'KVM: entry failed' >&2; exit 1")
	note := filepath.Join(trial.assets.Cache, "accelerator.json")
	want := "KVM does not work here (the VM ended before the program did: KVM: entry failed): " +
		"using TCG, which is slower; remove " + note + " to try again"
	for i := range 2 {
		if found, vms := trial.choose(t); found != TCG || vms != 1 {
			t.Errorf("found %s after %d VMs", found, vms)
		}
		if len(*said) != i+1 || (*said)[i] != want {
			t.Errorf("it said %q, not %q", *said, want)
		}
	}
	// Another QEMU is tried by itself, and this one again when the note is gone.
	other := trial.qemu + "-2"
	if _, known := recall(note, other); known {
		t.Error("what one QEMU showed holds for another")
	}
	if err := os.Remove(note); err != nil {
		t.Fatal(err)
	}
	if _, vms := trial.choose(t); vms != 2 {
		t.Errorf("%d VMs", vms)
	}
}

func TestKVMThatIsLateIsTriedAgain(t *testing.T) {
	trial, said := newTrial(t, "exec sleep 100")
	trial.limit = 100 * time.Millisecond
	if found, vms := trial.choose(t); found != TCG || vms > 1 {
		t.Errorf("found %s after %d VMs", found, vms)
	}
	if len(*said) != 1 || !strings.Contains((*said)[0], "(a VM ran no program within 100ms)") {
		t.Errorf("it said %q", *said)
	}
	note := filepath.Join(trial.assets.Cache, "accelerator.json")
	f, known := recall(note, trial.qemu)
	if left := time.Until(f.Until); !known || left <= 0 || left > doubtTime {
		t.Errorf("that holds for %v", left)
	}
	f.Until = time.Now()
	remember(note, f)
	if _, known := recall(note, trial.qemu); known {
		t.Error("that holds for longer")
	}
}

func TestNoKVM(t *testing.T) {
	trial, said := newTrial(t, "exit 1")
	trial.device = "/nowhere/kvm"
	if found, vms := trial.choose(t); found != TCG || vms != 0 {
		t.Errorf("found %s after %d VMs", found, vms)
	}
	if want := "KVM does not work here (open /nowhere/kvm: no such file or directory): " +
		"using TCG, which is slower"; len(*said) != 1 || (*said)[0] != want {
		t.Errorf("it said %q, not %q", *said, want)
	}
}

// TestTrialThatCouldNotBeMade lacks what every VM needs: that says nothing about KVM.
func TestTrialThatCouldNotBeMade(t *testing.T) {
	trial, said := newTrial(t, "exit 1")
	if err := os.Remove(filepath.Join(trial.assets.Build, "guest/init")); err != nil {
		t.Fatal(err)
	}
	if found, vms := trial.choose(t); found != TCG || vms != 0 {
		t.Errorf("found %s after %d VMs", found, vms)
	}
	if _, known := recall(filepath.Join(trial.assets.Cache, "accelerator.json"),
		trial.qemu); known {
		t.Error("that is remembered")
	}
	if len(*said) != 0 {
		t.Errorf("it said %q", *said)
	}
}

func TestAcceleratorIsRemembered(t *testing.T) {
	note := filepath.Join(t.TempDir(), "accelerator.json")
	if _, known := recall(note, "/q"); known {
		t.Error("recalled from nothing")
	}
	remember(note, finding{Boot: bootID(), QEMU: "/q", Accel: KVM})
	remember(note, finding{Boot: bootID(), QEMU: "/other", Accel: TCG, Why: "w"})
	if f, known := recall(note, "/q"); !known || f.Accel != KVM {
		t.Errorf("recalled %+v", f)
	}
	if f, known := recall(note, "/other"); !known || f.Accel != TCG || f.Why != "w" {
		t.Errorf("recalled %+v", f)
	}
	for _, text := range []string{bootID() + " tcg\n",
		`[{"boot":"another","qemu":"/q","accelerator":"kvm"}]`} {
		write(t, note, text)
		if f, known := recall(note, "/q"); known {
			t.Errorf("recalled %+v from %s", f, text)
		}
	}
}
