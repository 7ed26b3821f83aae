// SPDX-License-Identifier: Apache-2.0

package show

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
)

// vmOf is a VM with figures.
func vmOf(name string, held uint64, alone bool, gpu uint64) link.VM {
	return link.VM{
		Name: name, HeldNS: held, Alone: alone, Policy: map[string]string{"weight": "100"},
		GPUs: []link.GPU{{Name: "soft", Memory: 12 << 30}},
		Figures: &link.Figures{
			Memory:   map[string]uint64{"window": 3 << 30, "code": 20 << 20},
			Counters: map[string]uint64{gpuTime: gpu, "errors": 2},
			Processes: []link.Process{{PID: 7, Name: "a\x1b[2Jb\u202e", Counters: map[string]uint64{
				"launches": 5, "bytes_copied": 1 << 20, "bytes_mapped": 11 << 20, gpuTime: 1e9,
				"turns_used": 41, "turn_wait_ns": 2345e6, "turns_overrun": 43,
			}}},
		},
	}
}

func TestTopTable(t *testing.T) {
	begin := time.Now()
	var top topTable
	top.look([]link.VM{
		vmOf("a", 0, false, 0), vmOf("b", 0, false, 0), vmOf("c", 0, true, 0),
	}, begin)
	top.look([]link.VM{
		vmOf("a", 25e7, false, 9e8), vmOf("b", 75e7, false, 0), vmOf("c", 0, true, 5e8),
	}, begin.Add(time.Second))
	text := top.String()
	var order []string
	for line := range strings.Lines(text) {
		if fields := strings.Fields(line); len(fields) > 2 && len(fields[0]) == 1 {
			order = append(order, strings.Join(fields[:3], " "))
		}
	}
	want := "b 75% 100 c - 50% a 25% 100 b 7 a?[2Jb? c 7 a?[2Jb? a 7 a?[2Jb?"
	if got := strings.Join(order, " "); got != want {
		t.Errorf("%q, want %q\n%s", got, want, text)
	}
	for _, part := range []string{"3092M", "12M", "1s", "/ 12G", "  41     2.35s   43  ",
		"  900ms  "} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
	for _, r := range text {
		if r != '\n' && !unicode.IsPrint(r) {
			t.Errorf("%U is shown", r)
		}
	}
}

// TestMemoryOfSeveralGPUs: the memory that a VM has, and may have, is that of all its GPUs.
func TestMemoryOfSeveralGPUs(t *testing.T) {
	v := vmOf("a", 0, false, 0)
	v.GPUs = append(v.GPUs, link.GPU{Name: "soft-1", Memory: 12 << 30})
	for bound, want := range map[string]string{"": "3092M / 24G", "8G": "3092M / 16G"} {
		if v.Policy["memory"] = bound; memoryOf(&v) != want {
			t.Errorf("a bound of %q: %s, want %s", bound, memoryOf(&v), want)
		}
	}
}

func TestTopWithoutVMs(t *testing.T) {
	none := func() ([]link.VM, error) { return nil, nil }
	var b bytes.Buffer
	if err := topOnce(&b, none, time.Hour); err != nil || !strings.Contains(b.String(), "0 VMs") {
		t.Errorf("%v, %q", err, b.String())
	}
	b.Reset()
	var parsed struct{ VMs []link.VM }
	if err := topJSON(&b, none); err != nil || json.Unmarshal(b.Bytes(), &parsed) != nil ||
		parsed.VMs == nil {
		t.Errorf("%v, %q", err, b.String())
	}
}

func TestRoughly(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0", 1023: "1023", 10239: "10239", 10240: "10K", 12 << 20: "12M", 12<<20 + 5: "12M",
		20<<30 + 1: "20G", 1 << 63: "8388608T",
	} {
		if got := roughly(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

// TestTopEndsWithTheArbiter leaves the terminal as it was: nothing is written to it before there is
// an answer, and the cursor is shown in the end.
func TestTopEndsWithTheArbiter(t *testing.T) {
	gone := errors.New("gone")
	for answers, want := range []struct{ begin, end string }{
		{"", ""},
		{hideCursor + clearScreen, showCursor},
		{hideCursor + clearScreen, showCursor},
	} {
		var b bytes.Buffer
		left := answers
		err := topLive(&b, func() ([]link.VM, error) {
			if left == 0 {
				return nil, gone
			}
			left--
			return []link.VM{vmOf("a", 1, true, 1)}, nil
		}, time.Millisecond)
		got := b.String()
		if !errors.Is(err, gone) || strings.Count(got, clearScreen) != answers ||
			!strings.HasPrefix(got, want.begin) || !strings.HasSuffix(got, want.end) {
			t.Errorf("after %d answers: %q, %v", answers, got, err)
		}
	}
}
