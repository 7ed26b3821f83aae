// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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
	cpuinfo, load := filepath.Join(a.Cache, "cpuinfo"), filepath.Join(a.Cache, "loadavg")
	write(t, kvm, "")
	write(t, cpuinfo, "flags : fpu vmx\n")
	write(t, load, "0.10 0.20 0.30 1/100 4711\n")
	program(t, filepath.Join(a.Cache, "qemu-11/virtiofsd"), "exec sleep 100")
	setQEMU(t, qemu, script)
	t.Setenv("PARACUDA_QEMU", qemu)
	var said []string
	return &trial{assets: a, qemu: qemu, device: kvm, cpuinfo: cpuinfo, load: load,
		limit: 10 * time.Second, warn: func(text string) { said = append(said, text) },
		step: func(string) {}}, &said
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

// TestKVMThatIsLateIsTriedAgain: soon at first and on a busy host, later if it is late each time.
func TestKVMThatIsLateIsTriedAgain(t *testing.T) {
	trial, said := newTrial(t, "exec sleep 100")
	trial.limit = 100 * time.Millisecond
	note := filepath.Join(trial.assets.Cache, "accelerator.json")
	for i, want := range []time.Duration{firstDoubt, 2 * firstDoubt, 4 * firstDoubt, firstDoubt} {
		if i == 3 {
			write(t, trial.load, "1234.5 0.20 0.30 1/100 4711\n")
		}
		if found, _ := trial.choose(t); found != TCG {
			t.Errorf("found %s", found)
		}
		f, known := recall(note, trial.qemu)
		if left := time.Until(f.Until); !known || f.Doubt != want || left <= 0 || left > want {
			t.Errorf("trial %d holds for %v, and %v are left; want %v", i, f.Doubt, left, want)
		}
		trial.choose(t)
		if again, _ := recall(note, trial.qemu); again != f {
			t.Errorf("it was tried before its time: %+v, %+v", f, again)
		}
		f.Until = time.Now()
		remember(note, f)
	}
	if !strings.Contains((*said)[0], "(a VM ran no program within 100ms): using TCG, which is "+
		"slower; it is tried again in 1m0s, or remove ") {
		t.Errorf("it said %q", (*said)[0])
	}
	if doubt(mostDoubt, false) != mostDoubt || doubt(mostDoubt, true) != firstDoubt {
		t.Error("the doubt grows without end")
	}
	// A host that is quiet by then finds that KVM works.
	setQEMU(t, trial.qemu, "exit 1")
	trial.limit = time.Minute
	if trial.choose(t); !strings.Contains((*said)[len(*said)-1], "ended before the program did") {
		t.Errorf("it said %q", *said)
	}
}

func TestNoKVM(t *testing.T) {
	trial, said := newTrial(t, "exit 1")
	trial.device = "/nowhere/kvm"
	if found, vms := trial.choose(t); found != TCG || vms != 0 {
		t.Errorf("found %s after %d VMs", found, vms)
	}
	if want := "KVM does not work here (open /nowhere/kvm: no such file or directory: " +
		"modprobe -a kvm_intel kvm_amd): " +
		"using TCG, which is slower"; len(*said) != 1 || (*said)[0] != want {
		t.Errorf("it said %q, not %q", *said, want)
	}
}

// TestKVMInSoftware is on a processor that has none of its own: no VM is started to find out, and
// nothing is kept, as this costs nothing.
func TestKVMInSoftware(t *testing.T) {
	trial, said := newTrial(t, "exec sleep 100")
	write(t, trial.cpuinfo, "flags : fpu hypervisor\n")
	if found, vms := trial.choose(t); found != TCG || vms != 0 {
		t.Errorf("found %s after %d VMs", found, vms)
	}
	if want := "KVM does not work here (the processor offers neither VMX nor SVM): " +
		"using TCG, which is slower"; len(*said) != 1 || (*said)[0] != want {
		t.Errorf("it said %q, not %q", *said, want)
	}
	if notes, _ := filepath.Glob(filepath.Join(trial.assets.Cache, "accel*")); notes != nil {
		t.Errorf("it left %v", notes)
	}
	// Where that can't be read, a VM tells.
	trial.cpuinfo, trial.limit = "/nowhere/cpuinfo", 100*time.Millisecond
	if trial.choose(t); len(*said) != 2 || !strings.Contains((*said)[1], "ran no program") {
		t.Errorf("it said %q", *said)
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

// TestNoteThatIsNone has something else where the note should be. It tells of nothing, and, where
// one can be written, the next note replaces it.
func TestNoteThatIsNone(t *testing.T) {
	found := finding{Boot: bootID(), QEMU: "/q", Accel: KVM}
	text := `[{"boot":"` + bootID() + `","qemu":"/q","accelerator":"kvm"}` + "]"
	for _, tt := range []struct {
		name string
		put  func(t *testing.T, note string)
		kept bool
	}{
		{"cut off", func(t *testing.T, note string) { write(t, note, text[:20]) }, true},
		{"zeros", func(t *testing.T, note string) {
			write(t, note, strings.Repeat("\x00", 99))
		}, true},
		{"another accelerator", func(t *testing.T, note string) {
			write(t, note, strings.Replace(text, `"kvm"`, `"kvm,dump-guest-core=on"`, 1))
		}, true},
		{"too long", func(t *testing.T, note string) {
			write(t, note, text+strings.Repeat(" ", mostNote))
		}, true},
		{"a link", func(t *testing.T, note string) {
			write(t, note+"-other", text)
			symlink(t, note+"-other", note)
		}, true},
		{"a link to a device", func(t *testing.T, note string) {
			symlink(t, "/dev/zero", note)
		}, true},
		{"a FIFO", func(t *testing.T, note string) {
			if err := unix.Mkfifo(note, 0o600); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"a directory", func(t *testing.T, note string) {
			write(t, filepath.Join(note, "file"), text)
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			note := filepath.Join(t.TempDir(), "accelerator.json")
			tt.put(t, note)
			if f, known := recall(note, "/q"); known {
				t.Errorf("recalled %+v", f)
			}
			remember(note, found)
			if f, known := recall(note, "/q"); known != tt.kept || known && f != found {
				t.Errorf("recalled %+v, %v", f, known)
			}
			if drafts, _ := filepath.Glob(note + ".*"); drafts != nil {
				t.Errorf("it left %v", drafts)
			}
		})
	}
}

func symlink(t *testing.T, to, name string) {
	t.Helper()
	if err := os.Symlink(to, name); err != nil {
		t.Fatal(err)
	}
}

// TestVMsRememberAtOnce has many write the note while it is read: it is always a whole one.
func TestVMsRememberAtOnce(t *testing.T) {
	note := filepath.Join(t.TempDir(), "accelerator.json")
	remember(note, finding{Boot: bootID(), QEMU: "/q", Accel: KVM})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			why := strings.Repeat("w", 1000*i)
			for range 20 {
				remember(note, finding{Boot: bootID(), QEMU: "/q", Accel: TCG, Why: why})
				if _, known := recall(note, "/q"); !known {
					t.Error("nothing is recalled")
				}
			}
		})
	}
	all.Wait()
}
