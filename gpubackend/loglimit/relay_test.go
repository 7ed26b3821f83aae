// SPDX-License-Identifier: Apache-2.0

package loglimit

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// newRelay keeps what a relay passes on apart from what it says itself.
func newRelay() (*rig, *Relay, *bytes.Buffer) {
	r, to := newRig(), &bytes.Buffer{}
	return r, NewRelay(to, r.log, Limits{Bytes: Rate{100, 1000}, Tell: 10 * time.Second}, r.clock),
		to
}

func TestRelayIsBounded(t *testing.T) {
	r, relay, to := newRelay()
	const line = "a line of twenty b.\n"
	relay.Copy(strings.NewReader(strings.Repeat(line, 10000)))
	if n := strings.Count(to.String(), line); n != 50 || to.Len() != n*len(line) {
		t.Fatalf("%d lines, %d bytes", n, to.Len())
	}
	r.clock.advance(10 * time.Second)
	got := r.lines()
	if len(got) != 1 || !strings.Contains(got[0], "lines=9950 ") {
		t.Errorf("%q", got)
	}
	to.Reset()
	relay.Copy(strings.NewReader(strings.Repeat(line, 1000)))
	if n := strings.Count(to.String(), line); n != 50 {
		t.Errorf("%d lines after a while", n)
	}
	relay.Close()
	if got := r.lines(); len(got) != 1 || !strings.Contains(got[0], "lines=950 ") {
		t.Errorf("%q", got)
	}
	relay.Close()
	if got := r.lines(); len(got) != 0 {
		t.Errorf("told twice: %q", got)
	}
}

// TestRelayOfEndlessLine takes no more memory than a line may have.
func TestRelayOfEndlessLine(t *testing.T) {
	_, relay, to := newRelay()
	relay.Copy(strings.NewReader(strings.Repeat("x", 100*maxLine)))
	if to.Len() > maxLine {
		t.Errorf("%d bytes of one line", to.Len())
	}
}

func TestRelayPassesAllOn(t *testing.T) {
	r, relay, to := newRelay()
	const text = "one\n\ntwo without end"
	relay.Copy(strings.NewReader(text))
	relay.Close()
	if to.String() != text || len(r.lines()) != 0 {
		t.Errorf("%q", to)
	}
}
