// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"path/filepath"
	"testing"
	"time"
)

// TestKilledWhileProgramsStart kills the device process at random moments, while programs start,
// three at a time. Each says the same as before the first kill. No worker that was started ahead of
// use suits two of the three: it leaves its channel to another one, also while there is no device
// process.
func TestKilledWhileProgramsStart(t *testing.T) {
	t.Parallel()
	inEach(t, func(t *testing.T, vm frontEnd) {
		const script = `
want=$("$0" count) || exit 1
goes() {
	while :; do
		got=$(env $1=1 "$0" count)
		[ "$got" = "$want" ] || { echo "with $1=1: \"$got\", want \"$want\""; return; }
	done
}
"$1" 0 & keeps=$!
goes NOTHING & one=$!
goes CUDA_DEVICE_MAX_CONNECTIONS & two=$!
goes CUDA_DEVICE_MAX_CONNECTIONS & three=$!
while kill -0 $keeps && kill -0 $one && kill -0 $two && kill -0 $three; do sleep 0.05; done
exit 1`
		r := startKeptOf(t, vm, "sh", "-c", script, filepath.Join(programs, "environment"),
			filepath.Join(programs, "keeps"))
		r.set(t, "warm-workers=3")
		for range keptRoundsIn(t, vm, 40, 10) {
			<-r.killAfter(300 * time.Millisecond)
		}
		r.goesOn(t, "at the end")
	})
}
