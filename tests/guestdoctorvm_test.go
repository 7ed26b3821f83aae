// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"strings"
	"testing"
)

// breakings breaks a VM with two channels in one way after another, and runs paracuda-doctor ($1)
// each time. $2 is a program that holds a channel. All faults but the last are mended again.
const breakings = `
held=
hold() {
	"$@" hold >/tmp/held-$# & held="$held $!"
	for i in $(seq 600); do
		! grep -q holding /tmp/held-$# || return 0
		sleep 0.1
	done
	exit 4
}
end() { kill $held; wait $held; rm /tmp/held*; held=; } 2>/dev/null
step() { echo "== $1"; shift; "$@"; }

hold "$2"
hold env "$2"
step in-use "$1" channel computation
end

user="setpriv --bounding-set -sys_resource --inh-caps -sys_resource"
echo 1 >/sys/module/paracuda/parameters/user_share
hold $user "$2"
step share $user "$1" channel
end
echo 75 >/sys/module/paracuda/parameters/user_share

chmod 0600 /dev/paracuda
step mode "$1" node
step another-user setpriv --bounding-set -all --inh-caps -all --reuid 65534 "$1" node channel
sh -ec "$("$1" node | sed -n 's/^ *fix: //p')"

device=$(basename /sys/bus/virtio/drivers/paracuda/virtio*)
echo $device >/sys/bus/virtio/drivers/paracuda/unbind
step unbound "$1" device node channel
sh -ec "$("$1" device | sed -n 's/^ *fix: //p')"
step mended "$1" device node channel

rmmod paracuda
step unloaded "$1" device node computation
`

// brokenVM is what paracuda-doctor must say, for each step.
var brokenVM = map[string]string{
	"in-use": `problem  channel: all channels are in use: end a CUDA program, or give the VM more
           fix: paracuda device --set channels=N (on the host)
problem  computation: initialise CUDA: CUDA_ERROR_SYSTEM_NOT_READY
           fix: paracuda-doctor device node channel
2 problems, no warnings
`,
	"share": `problem  channel: this user has as many channels as one user may
           fix: echo 100 >/sys/module/paracuda/parameters/user_share
1 problem, no warnings
`,
	"mode": `warning  node: /dev/paracuda is not for all users: its mode is 0600
           fix: chmod 0666 /dev/paracuda
no problems, 1 warning
`,
	"another-user": `problem  node: no permission for /dev/paracuda
           fix: chmod 0666 /dev/paracuda
problem  channel: no permission for /dev/paracuda
           fix: chmod 0666 /dev/paracuda
2 problems, no warnings
`,
	"unbound": `problem  device: virtio0 was taken from the driver paracuda
           fix: echo virtio0 >/sys/bus/virtio/drivers/paracuda/bind
problem  node: no /dev/paracuda: the driver has no device
           fix: paracuda-doctor device module
problem  channel: no /dev/paracuda
           fix: paracuda-doctor device module
3 problems, no warnings
`,
	"mended": `ok       device: virtio0 has the driver paracuda
ok       node: /dev/paracuda is for all users
ok       channel: one is free; driver and device speak protocol version VERSION
no problems, no warnings
`,
	"unloaded": `problem  device: virtio0 has no driver: paracuda isn't loaded
           fix: modprobe paracuda
problem  node: no /dev/paracuda: the driver has no device
           fix: paracuda-doctor device module
problem  computation: initialise CUDA: CUDA_ERROR_NO_DEVICE
           fix: paracuda-doctor device node channel
3 problems, no warnings
`,
}

// TestGuestDoctorInBrokenVM breaks a running VM. If the doctor's fix is a command for the VM, the
// script runs it.
func TestGuestDoctorInBrokenVM(t *testing.T) {
	if !strings.Contains(setting("PARACUDA_VM", "uml,qemu"), "uml") {
		skip(t, "PARACUDA_VM leaves User Mode Linux out, and one front end is enough here")
	}
	boots(t)
	hold := build(t, "tests/guests/call.c", "-ldl")
	r := frontEnds[0].run(t, frontEnds[0].limit, "--set", "channels=2", "--",
		"sh", "-c", breakings, "sh", guestDoctor, hold)
	said := map[string]string{}
	for _, step := range strings.Split("\n"+r.stdout, "\n== ")[1:] {
		name, text, _ := strings.Cut(step, "\n")
		said[name] = strings.TrimSuffix(text, "\n") + "\n"
	}
	for name, want := range brokenVM {
		want = strings.ReplaceAll(want, "VERSION", packageVersion(t))
		if said[name] != want {
			t.Errorf("%s: the doctor says %q, want %q", name, said[name], want)
		}
	}
	if t.Failed() {
		t.Logf("exit code %d:%s", r.exit, tail(r.stderr))
	}
}
