// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"strings"
	"testing"
)

// allAtOnce starts $1 programs, and lets them go on when each has a context. It prints how many
// ended with each exit code, and then their standard error.
const allAtOnce = `cd /tmp
i=0
while [ $i -lt $1 ]; do "$0" 2 up.$i gate 2>said.$i & pids="$pids $!"; i=$((i + 1)); done
tries=0
until [ "$(ls up.* 2>/dev/null | wc -l)" = $1 ] || [ $tries = 900 ]; do
	tries=$((tries + 1)); sleep 0.1
done
touch gate
for p in $pids; do wait $p; echo $?; done >codes
sort codes | uniq -c
cat said.*`

// TestAllChannelsAtOnce runs 63 programs at the same time, as many as User Mode Linux can have
// channels. Each computes and copies, and checks its results.
func TestAllChannelsAtOnce(t *testing.T) {
	const channels = 63
	inEach(t, func(t *testing.T, vm frontEnd) {
		r := vm.run(t, 5*vm.limit, "--set", fmt.Sprint("channels=", channels), "--set", "starts=0",
			"--set", "soft-memory=4G", "--mem", "1G", "--", "sh", "-c", allAtOnce,
			build(t, "tests/guests/busy.c", "-ldl"), fmt.Sprint(channels))
		want := fmt.Sprint(channels, " 0")
		if got := strings.Join(strings.Fields(r.stdout), " "); r.exit != 0 || got != want {
			t.Errorf("exit code %d, output %q, want 0, %q:%s", r.exit, got, want, tail(r.stderr))
		}
	})
}
