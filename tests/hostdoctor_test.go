// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/paracuda/paracuda/vm"
)

// These tests can't break what needs a GPU: NVIDIA's modules, library and nodes, HMM, and a GPU
// that computes wrongly. The doctor package's own tests have files in their place.

// brokenHost breaks a host in all ways that a VM's kernel allows, and runs the doctor. Then it
// executes those of the doctor's fixes that only need a command, and runs the doctor again: with
// few processes allowed, as a user who may not use KVM, and as root.
const brokenHost = `
d=$1
mount -t securityfs securityfs /sys/kernel/security
mount -t tmpfs run /run
mount -t tmpfs etc /mnt && mkdir -p /mnt/up/paracuda/vms /mnt/work
echo 'colour = "red"' >/mnt/up/paracuda/vms/a.conf
printf '[default]\nweight = 0\n' >/mnt/up/paracuda/arbiter.toml
mount -t overlay etc -o lowerdir=/etc,upperdir=/mnt/up,workdir=/mnt/work /etc
for x in vm/max_map_count=1000 kernel/pid_max=400 user/max_user_namespaces=0
do echo "${x#*=}" >"/proc/sys/${x%=*}"; done
chmod 600 /dev/nvidiactl
mkdir -p /run/paracuda/ended /tmp/old
echo no socket >/run/paracuda/file.sock
"$d" device --gpu soft --arbiter none --keeper off --socket-path /run/paracuda/ended.sock \
	--control /run/paracuda/ended/control.sock 2>/dev/null & device=$!
cp "$d" /tmp/old/paracuda
/tmp/old/paracuda arbiter --socket /run/paracuda/arbiter.sock 2>/dev/null & arbiter=$!
until [ -e /run/paracuda/ended/control.sock ] && [ -e /run/paracuda/arbiter.sock ]
do sleep 0.1; done
rm /tmp/old/paracuda; kill -KILL $device; kill -STOP $arbiter; chmod 700 /run/paracuda/ended.sock
look() { "$d" doctor --gpu soft --qemu /nowhere "$@"; }
(ulimit -n 1024; look --json)
look | sed -n 's/^ *fix: //p' | grep -e '^sysctl' -e '^chmod' -e '^rm ' >/tmp/fixes
kill -KILL $arbiter
sh -e /tmp/fixes >/dev/null
(ulimit -u 200; look --json)
modules=$2/kernel
insmod $modules/virt/lib/irqbypass.ko && insmod $modules/arch/x86/kvm/kvm.ko &&
	{ insmod $modules/arch/x86/kvm/kvm-amd.ko || insmod $modules/arch/x86/kvm/kvm-intel.ko; }
[ -e /dev/kvm ] || mknod /dev/kvm c 10 232
chmod 600 /dev/kvm
cp "$d" /tmp/
(d=/tmp/paracuda; nobody() { setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; }
	look() { nobody "$d" doctor --gpu soft --qemu /nowhere "$@"; }; look --json)
look --json
`

// withoutLandlock makes a program that runs QEMU and boots its Linux without Landlock.
func withoutLandlock(t *testing.T) string {
	t.Helper()
	program, err := vm.FindAssets().QEMU()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "qemu")
	text := "#!/bin/bash\nall=()\nfor a; do\n\tcase $a in\n\tconsole=*) " +
		"a=\"lsm=capability,yama $a\" ;;\n\tesac\n\tall+=(\"$a\")\ndone\n" +
		"exec '" + program + "' \"${all[@]}\"\n"
	if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestHostDoctorInBrokenHost: the doctor finds what is broken, and its fixes work.
func TestHostDoctorInBrokenHost(t *testing.T) {
	needsQEMU(t) // only its guest's kernel has all that is broken here
	kernel, err := vm.FindAssets().KernelDir(vm.QEMU, "6.12")
	if err != nil {
		t.Fatal(err)
	}
	q := frontEnds[1]
	r := execute(t, within(q.boot+3*q.limit), root, "env", "PARACUDA_QEMU="+withoutLandlock(t),
		paracuda, "run", "--gpu", "soft", "--kernel", "6.12", "--", "bash", "-c", brokenHost,
		"bash", paracuda, filepath.Join(kernel, "modules"))
	found := looks(t, r, 4)
	has := func(look int, check, level, text string) {
		t.Helper()
		wantLook(t, found[look], check, level, text)
	}
	for _, w := range [][3]string{
		{"processes", "warning", "was replaced"}, {"qemu", "problem", "/nowhere"},
		{"kvm", "warning", "no /dev/kvm"}, {"nodes", "warning", "/dev/nvidiactl"},
		{"nodes", "problem", "no /dev/nvidia-uvm"},
		{"mappings", "warning", "1000"},
		{"landlock", "warning", "not supported"}, {"descriptors", "warning", "1024"},
		{"processes-limit", "warning", "pid_max is 400"},
		{"user-namespaces", "warning", "have none"}, {"arbiter", "problem", "answer"},
		{"arbiter-config", "problem", "line 2"}, {"vm-config", "problem", "colour"},
		{"vm-socket", "problem", "file.sock is no socket"},
		{"vm-socket", "problem", "owner alone"}, {"vm-control", "problem", "has ended"},
	} {
		has(0, w[0], w[1], w[2])
	}
	has(1, "processes-limit", "warning", "200")
	has(2, "kvm", "problem", "no permission for /dev/kvm")
	for _, check := range []string{"mappings", "processes-limit", "user-namespaces",
		"computation"} {
		has(3, check, "ok", "")
	}
	has(3, "arbiter", "warning", "none runs")
	for _, f := range found[3] {
		if f.Check == "vm-socket" && f.Level != "ok" || f.Check == "kvm" && f.Level == "problem" ||
			f.Check == "nodes" && strings.Contains(f.Found, "nvidiactl") {
			t.Errorf("the doctor still finds it after the fix: %+v", f)
		}
	}
}

// looks are the doctor's findings, for each of its n runs.
func looks(t *testing.T, r result, n int) (found [][]finding) {
	t.Helper()
	said := json.NewDecoder(strings.NewReader(r.stdout))
	for i := range n {
		var one struct{ Findings []finding }
		if err := said.Decode(&one); err != nil {
			t.Fatalf("run %d of the doctor: %v:%s%s", i, err, tail(r.stdout), tail(r.stderr))
		}
		found = append(found, one.Findings)
	}
	return found
}

// wantLook wants a finding of a check with this level, and this text in what was found or in the
// fix.
func wantLook(t *testing.T, found []finding, check, level, text string) {
	t.Helper()
	var said []finding
	for _, f := range found {
		if f.Check == check && f.Level == level &&
			(strings.Contains(f.Found, text) || strings.Contains(f.Fix, text)) {
			return
		}
		if f.Check == check {
			said = append(said, f)
		}
	}
	t.Errorf("%s: %+v, want %s with %q", check, said, level, text)
}

// TestHostDoctorInSmallKernels runs the doctor under kernels that were built without what it
// checks.
func TestHostDoctorInSmallKernels(t *testing.T) {
	boots(t)
	needsUML(t)
	uml := frontEnds[0]
	for kernel, lacks := range map[string][][3]string{
		"7.2": {{"landlock", "warning", "CONFIG_SECURITY_LANDLOCK"},
			{"user-namespaces", "warning", "invalid argument"}},
		"7.2-debug": {{"seccomp", "problem", "CONFIG_SECCOMP_FILTER"}},
	} {
		t.Run(kernel, func(t *testing.T) {
			if _, err := vm.FindAssets().Release(vm.UML, kernel); err != nil {
				skip(t, "no such kernel here: %v", err)
			}
			r := uml.run(t, uml.limit, "--kernel", kernel, "--mem", debugMemory(), "--", paracuda,
				"doctor", "--gpu", "soft", "--qemu", "/nowhere", "--json")
			for _, l := range lacks {
				wantLook(t, looks(t, r, 1)[0], l[0], l[1], l[2])
			}
		})
	}
}

// TestHostDoctorWhereCallsAreRefused: a container's seccomp filter refuses a system call. The
// doctor says so, and so does the device process, which needs it.
func TestHostDoctorWhereCallsAreRefused(t *testing.T) {
	notShort(t)
	refuse := build(t, "tests/guests/refuse.c")
	for call, want := range map[string][3]string{
		"memfd_create":            {"shared-memory", "problem"},
		"seccomp":                 {"seccomp", "problem"},
		"landlock_create_ruleset": {"landlock", "warning", "log"},
	} {
		t.Run(call, func(t *testing.T) {
			fix := "allow the system call " + call
			r := command(t, time.Minute, root, refuse, call, paracuda, "doctor", "--gpu", "soft",
				"--json")
			wantLook(t, looks(t, r, 1)[0], want[0], want[1], fix)
			socket := filepath.Join(t.TempDir(), "socket")
			device := []string{refuse, call, paracuda, "device", "--gpu", "soft", "--arbiter",
				"none", "--keeper", "off", "--log-level", "info", "--socket-path", socket}
			if want[2] == "" {
				if r := command(t, time.Minute, root, device...); r.exit != 1 ||
					!strings.Contains(r.stderr, fix) {
					t.Errorf("the device process: exit code %d, want 1 and %q:%s", r.exit, fix,
						tail(r.stderr))
				}
				return
			}
			p := inBackground(t, device...)
			until(t, time.Minute, "its log names the fix", func() bool {
				return strings.Contains(p.said(), fix)
			})
		})
	}
}
