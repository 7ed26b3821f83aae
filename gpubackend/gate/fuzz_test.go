// SPDX-License-Identifier: Apache-2.0

package gate

import (
	"encoding/binary"
	"math"
	"testing"
	"time"
)

// FuzzPage: workers have written anything to a page that an arbiter and a device process use. The
// arbiter finds in it whether there is work, and nothing else; what it and the device process write
// holds; and once the workers have ended nothing of theirs is left.
func FuzzPage(f *testing.F) {
	f.Add([]byte{}, uint32(1), uint64(0))
	f.Add([]byte{0, 0, 0xff, 0xff, 0xff, 0xff}, uint32(0), uint64(1))
	f.Add([]byte{0, 4, 1, 0, 0, 0}, uint32(math.MaxUint32), uint64(math.MaxUint64))
	f.Add([]byte{1, 4, 0, 0, 0, 0x80}, uint32(2), uint64(1)<<63)
	f.Add([]byte{0x10, 0, 9, 9, 9, 9, 0xff, 0x7f, 1, 2, 3, 4}, uint32(3), uint64(12345))
	f.Fuzz(func(t *testing.T, writes []byte, word uint32, beat uint64) {
		p := newPage(t)
		for ; len(writes) >= 6; writes = writes[6:] {
			at := 4 * int(binary.LittleEndian.Uint16(writes)) % pageBytes
			copy(p.mem[at:at+4], writes[2:])
		}
		binary.LittleEndian.PutUint32(p.mem, word)
		binary.LittleEndian.PutUint64(p.mem[beatAt:], beat)
		if s := p.State(); s.word() != word || s.InFlight < 0 || s.InFlight > maxFlight {
			t.Errorf("the word %#x is %+v, which is %#x", word, s, s.word())
		}
		if b := p.Beaten(); uint64(b) != beat {
			t.Errorf("the beat %d is %v", beat, b)
		}
		demanded(t, p)
		for entry := range Entries {
			w := p.Worker(entry)
			w.Enter()
			w.Wait(word&1 != 0)
			w.Rest()
		}
		demanded(t, p)
		set := State{Attend: true, InFlight: time.Millisecond}
		p.Beat(time.Hour)
		p.SetTurn(Turn{Number: beat, Overruns: 2})
		if p.Set(set); p.State() != set || p.Beaten() != time.Hour || p.Worker(1).Turn() != beat ||
			p.Worker(1).Enter() || readable(t, p.opened) {
			t.Errorf("a gate that was closed is %+v", p.State())
		}
		for entry := range Entries {
			p.Worker(entry).Hold()
			p.Worker(entry).Wait(true)
			p.Clear(entry)
		}
		if waiting, inFlight := p.Demand(); waiting || inFlight {
			t.Errorf("workers that have ended wait: %v, have work: %v", waiting, inFlight)
		}
	})
}

// demanded compares what a page says of all workers with its bytes.
func demanded(t *testing.T, p *Page) {
	t.Helper()
	waits, flies := false, false
	for entry := range Entries {
		line := p.mem[entriesAt+entry*lineBytes:]
		waits = waits || binary.LittleEndian.Uint32(line) != 0
		flies = flies || binary.LittleEndian.Uint32(line[flightAt:]) != 0
	}
	if waiting, inFlight := p.Demand(); waiting != waits || inFlight != flies {
		t.Errorf("waiting %v, want %v; in flight %v, want %v", waiting, waits, inFlight, flies)
	}
}
