// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"encoding/json"
	"strings"
	"testing"
)

// brokenHost breaks a host in all ways that a VM's kernel allows, and has the doctor look at it.
// Then it executes those of the doctor's fixes that need nobody else, and has it look again.
const brokenHost = `
d=$1
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
(ulimit -n 1024; ulimit -l 64; look --json)
look | sed -n 's/^ *fix: //p' | grep -e '^sysctl' -e '^chmod' -e '^rm ' >/tmp/fixes
kill -KILL $arbiter
sh -e /tmp/fixes >/dev/null
(ulimit -u 200; look --json)
look --json
`

// TestHostDoctorInBrokenHost: the doctor finds what is broken, and its commands fix it.
func TestHostDoctorInBrokenHost(t *testing.T) {
	boots(t)
	if !strings.Contains(setting("PARACUDA_VM", "uml,qemu"), "qemu") {
		skip(t, "PARACUDA_VM leaves QEMU out, whose guest's kernel has all that is broken here")
	}
	vm := frontEnds[1]
	r := vm.run(t, 3*vm.limit, "--kernel", "6.12", "--", "bash", "-c", brokenHost, "bash", paracuda)
	var found [3][]finding
	said := json.NewDecoder(strings.NewReader(r.stdout))
	for i := range found {
		var one struct{ Findings []finding }
		if err := said.Decode(&one); err != nil {
			t.Fatalf("look %d: %v:%s%s", i, err, tail(r.stdout), tail(r.stderr))
		}
		found[i] = one.Findings
	}
	has := func(look int, check, level, text string) {
		t.Helper()
		var said []finding
		for _, f := range found[look] {
			if f.Check == check && f.Level == level && strings.Contains(f.Found, text) {
				return
			}
			if f.Check == check {
				said = append(said, f)
			}
		}
		t.Errorf("look %d: %+v, want %s with %q", look, said, level, text)
	}
	for _, w := range [][3]string{
		{"processes", "warning", "was replaced"}, {"qemu", "problem", "/nowhere"},
		{"kvm", "warning", "no /dev/kvm"}, {"nodes", "warning", "/dev/nvidiactl"},
		{"nodes", "problem", "no /dev/nvidia-uvm"},
		{"mappings", "warning", "1000"}, {"locked-memory", "warning", "65536"},
		{"descriptors", "warning", "1024"}, {"processes-limit", "warning", "pid_max is 400"},
		{"user-namespaces", "warning", "have none"}, {"arbiter", "problem", "answer"},
		{"arbiter-config", "problem", "line 2"}, {"vm-config", "problem", "colour"},
		{"vm-socket", "problem", "file.sock is no socket"},
		{"vm-socket", "problem", "owner alone"}, {"vm-control", "problem", "has ended"},
	} {
		has(0, w[0], w[1], w[2])
	}
	has(1, "processes-limit", "warning", "200")
	for _, check := range []string{"mappings", "processes-limit", "user-namespaces",
		"computation"} {
		has(2, check, "ok", "")
	}
	has(2, "arbiter", "warning", "none runs")
	for _, f := range found[2] {
		if f.Check == "vm-socket" && f.Level != "ok" ||
			f.Check == "nodes" && strings.Contains(f.Found, "nvidiactl") {
			t.Errorf("fixed, it is found again: %+v", f)
		}
	}
}
