// SPDX-License-Identifier: Apache-2.0

package shares

import (
	"os"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/paracuda/paracuda/gpubackend/handover"
	"github.com/paracuda/paracuda/internal/leaks"
)

func TestMain(m *testing.M) { os.Exit(leaks.Main(m)) }

// peer is told things.
type peer struct {
	mu    sync.Mutex
	told  []handover.Message
	files int
	ended bool
}

func (p *peer) Tell(m *handover.Message, fds []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told = append(p.told, *m)
	p.files += len(fds)
}

func (p *peer) Ended() bool { return p.ended }

// takes returns the first thing that it was told.
func (p *peer) takes() (m handover.Message, is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.told) == 0 {
		return m, false
	}
	m, p.told = p.told[0], p.told[1:]
	return m, true
}

// rig is a VM with workers.
type rig struct {
	t *testing.T
	*Broker
}

func newRig(t *testing.T, patience time.Duration) *rig {
	t.Helper()
	return &rig{t, New(Config{Patience: patience,
		Guard: func(_ string, f func()) bool { f(); return true }})}
}

func named(secret byte) handover.ShareName {
	return handover.ShareName{Kind: "memory", Secret: [handover.SecretBytes]byte{secret}}
}

func (r *rig) shares(p *peer, secrets ...byte) {
	m := &handover.Message{Kind: handover.KindShare}
	for _, s := range secrets {
		m.Shared = append(m.Shared, named(s))
	}
	r.Said(p, m, nil)
}

func (r *rig) seeks(p *peer, turn uint64, secret byte) {
	r.Said(p, &handover.Message{Kind: handover.KindSeek, Turn: turn,
		Shared: []handover.ShareName{named(secret)}}, nil)
}

// manySeek has more peers seek something than its owner is asked for at a time. Their turns are
// their places in the list.
func (r *rig) manySeek(secret byte) (all []*peer) {
	for i := range mostAsked + 3 {
		p := &peer{}
		r.seeks(p, uint64(i), secret)
		all = append(all, p)
	}
	return all
}

// asked is the number by which a peer is asked for something.
func (r *rig) asked(p *peer, secret byte) uint64 {
	r.t.Helper()
	m, is := p.takes()
	if !is || m.Kind != handover.KindGive || len(m.Shared) != 1 || m.Shared[0] != named(secret) {
		r.t.Fatalf("it was told %t: %+v, want to be asked for %d", is, m, secret)
	}
	return m.Turn
}

// gives has a peer give a file.
func (r *rig) gives(p *peer, number uint64) {
	r.t.Helper()
	fd, err := unix.MemfdCreate("given", unix.MFD_CLOEXEC)
	if err != nil {
		r.t.Fatal(err)
	}
	r.Said(p, &handover.Message{Kind: handover.KindGiven, Turn: number, Text: []byte("text"),
		Files: handover.Files{Object: true}}, []int{fd})
}

// mustGet checks that a peer gets the answer to its question.
func (r *rig) mustGet(p *peer, turn uint64, found bool) {
	r.t.Helper()
	m, is := p.takes()
	if !is || m.Kind != handover.KindFound || m.Turn != turn || m.Nobody == found ||
		m.Files.Object != found || found != (string(m.Text) == "text") || m.Error != "" {
		r.t.Errorf("it was told %t: %+v, want turn %d, found %t", is, m, turn, found)
	}
}

// mustBeQuiet checks that a peer was told nothing.
func (r *rig) mustBeQuiet(peers ...*peer) {
	r.t.Helper()
	for i, p := range peers {
		if m, is := p.takes(); is {
			r.t.Errorf("peer %d was told %+v", i, m)
		}
	}
}

// mustBeEmpty checks that nothing is kept of peers that have ended.
func (r *rig) mustBeEmpty(peers ...*peer) {
	r.t.Helper()
	for _, p := range peers {
		p.ended = true
		r.Ended(p)
		r.shares(p, 1) // late words
	}
	if len(r.parties)+len(r.owners)+len(r.Broker.asked)+len(r.lost)+r.behind != 0 {
		r.t.Errorf("%d peers, %d secrets, %d questions and %d, %d behind are left", len(r.parties),
			len(r.owners), len(r.Broker.asked), len(r.lost), r.behind)
	}
}

// TestAFileGoesOn from who shares something to who knows its secret, and is closed here.
func TestAFileGoesOn(t *testing.T) {
	before := leaks.Descriptors(t)
	r, a, b := newRig(t, time.Hour), &peer{}, &peer{}
	r.seeks(b, 7, 1)
	r.mustGet(b, 7, false)
	r.shares(a, 1, 2)
	r.seeks(b, 8, 1)
	r.gives(a, r.asked(a, 1))
	r.mustGet(b, 8, true)
	if b.files != 1 {
		t.Errorf("%d files", b.files)
	}
	r.seeks(a, 9, 2) // itself
	r.gives(a, r.asked(a, 2))
	r.mustGet(a, 9, true)
	r.seeks(b, 10, 2)
	number := r.asked(a, 2)
	r.Said(a, &handover.Message{Kind: handover.KindGiven, Turn: number, Nobody: true}, nil)
	r.mustGet(b, 10, false)
	r.Said(a, &handover.Message{Kind: handover.KindUnshare,
		Shared: []handover.ShareName{named(1), named(9)}}, nil)
	r.seeks(b, 11, 1)
	r.mustGet(b, 11, false)
	r.mustBeQuiet(a, b)
	r.mustBeEmpty(a, b)
	if n := leaks.Descriptors(t); n != before {
		t.Errorf("%d files are open, %d before", n, before)
	}
}

// TestIsTold: who shares something with a number is told when others can find it.
func TestIsTold(t *testing.T) {
	r := newRig(t, time.Minute)
	one, other := &peer{}, &peer{}
	r.Said(one, &handover.Message{Kind: handover.KindShare, Turn: 7,
		Shared: []handover.ShareName{named(1)}}, nil)
	if m, is := one.takes(); !is || m.Kind != handover.KindShared || m.Turn != 7 {
		t.Fatalf("%t: %+v", is, m)
	}
	r.seeks(other, 1, 1)
	r.gives(one, r.asked(one, 1))
	r.mustGet(other, 1, true)
	r.shares(one, 2)
	r.Said(one, &handover.Message{Kind: handover.KindShare, Turn: 8}, nil)
	if m, is := one.takes(); !is || m.Kind != handover.KindShared || m.Turn != 8 {
		t.Errorf("%t: %+v", is, m)
	}
	r.mustBeQuiet(one, other)
	r.Ended(one)
	r.Ended(other)
	r.mustBeEmpty()
}

// TestLies: who wasn't asked can't give, or what was given already; nobody takes what another one
// shares; and words of a wrong form do nothing.
func TestLies(t *testing.T) {
	before := leaks.Descriptors(t)
	r, a, b, c := newRig(t, time.Hour), &peer{}, &peer{}, &peer{}
	r.shares(a, 1)
	r.shares(c, 1)
	r.seeks(b, 1, 1)
	number := r.asked(a, 1)
	r.gives(c, number)
	r.gives(b, number)
	r.gives(a, number+1)
	r.gives(a, 0)
	r.mustBeQuiet(a, b, c)
	r.gives(a, number)
	r.gives(a, number)
	r.mustGet(b, 1, true)
	r.Said(c, &handover.Message{Kind: handover.KindUnshare,
		Shared: []handover.ShareName{named(1)}}, nil)
	r.Said(b, &handover.Message{Kind: handover.KindSeek, Turn: 2}, nil)
	r.Said(b, &handover.Message{Kind: handover.KindSeek, Turn: 2,
		Shared: []handover.ShareName{named(1), named(1)}}, nil)
	r.mustBeQuiet(a, b, c)
	r.seeks(b, 3, 1)
	long := &handover.Message{Kind: handover.KindGiven, Turn: r.asked(a, 1),
		Text: make([]byte, mostText+1)}
	r.Said(a, long, nil)
	r.mustGet(b, 3, false)
	r.Said(a, &handover.Message{Kind: handover.KindShare, Shared: []handover.ShareName{
		{Kind: string(make([]byte, mostKind+1))}}}, nil)
	if n := len(r.owners); n != 1 {
		t.Errorf("%d secrets", n)
	}
	r.mustBeEmpty(a, b, c)
	if n := leaks.Descriptors(t); n != before {
		t.Errorf("%d files are open, %d before", n, before)
	}
}

// TestBounds: of a peer's secrets, and of all.
func TestBounds(t *testing.T) {
	r := newRig(t, time.Hour)
	var peers []*peer
	for i := range mostOfAll/mostOfOne + 2 {
		p := &peer{}
		peers = append(peers, p)
		m := &handover.Message{Kind: handover.KindShare}
		for k := range mostOfOne + 10 {
			m.Shared = append(m.Shared, handover.ShareName{Secret: [handover.SecretBytes]byte{
				byte(i), byte(k), byte(k >> 8)}})
		}
		r.Said(p, m, nil)
		n := len(r.parties[p].shared)
		if n > mostOfOne || i < mostOfAll/mostOfOne && n < mostOfOne {
			t.Errorf("peer %d has %d", i, n)
		}
	}
	if n := len(r.owners); n != mostOfAll {
		t.Errorf("%d in all", n)
	}
	r.mustBeEmpty(peers...)
}

// TestOneQuestion: a peer's next question takes the place of the last one, and the one who shares
// is asked for a few things at a time, for everybody in turn.
func TestOneQuestion(t *testing.T) {
	r, a, b, c := newRig(t, time.Hour), &peer{}, &peer{}, &peer{}
	r.shares(a, 1, 2)
	for turn := range uint64(1000) {
		r.seeks(b, turn, 1)
	}
	r.seeks(c, 1, 2)
	if n := len(a.told); n != mostAsked {
		t.Fatalf("asked for %d things", n)
	}
	for range mostAsked { // of the questions that were given up
		r.gives(a, r.asked(a, 1))
	}
	r.mustBeQuiet(b, c)
	r.gives(a, r.asked(a, 1))
	r.gives(a, r.asked(a, 2))
	r.mustGet(b, 999, true)
	r.mustGet(c, 1, true)
	r.mustBeQuiet(a, b, c)
	r.mustBeEmpty(a, b, c)
}

// TestTheOneWhoSharesEnds: who waits learns that nobody shares it, asked for or not.
func TestTheOneWhoSharesEnds(t *testing.T) {
	r, a := newRig(t, time.Hour), &peer{}
	r.shares(a, 1)
	waiting := r.manySeek(1)
	r.mustBeQuiet(waiting...)
	waiting[0].ended = true
	r.Ended(waiting[0])
	last := waiting[len(waiting)-1]
	last.ended = true
	r.Ended(last)
	a.ended = true
	r.Ended(a)
	for i, p := range waiting[1 : len(waiting)-1] {
		r.mustGet(p, uint64(i+1), false)
	}
	r.mustBeQuiet(waiting[0], last)
	r.mustBeEmpty(waiting...)
}

// TestSilence: one that doesn't answer costs others a time.
func TestSilence(t *testing.T) {
	r, a := newRig(t, time.Millisecond), &peer{}
	r.shares(a, 1)
	waiting := r.manySeek(1)
	for i, p := range waiting {
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			if m, is := p.takes(); is {
				if m.Kind != handover.KindFound || m.Turn != uint64(i) || m.Error == "" {
					t.Errorf("%d: %+v", i, m)
				}
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%d still waits", i)
			}
		}
	}
	for range mostAsked {
		r.gives(a, r.asked(a, 1)) // too late
	}
	r.mustBeQuiet(append(waiting, a)...)
	r.mustBeEmpty(append(waiting, a)...)
}

// TestTakenOver: what peers of another process share isn't known before they have said all of it,
// or have ended. Questions wait until then.
func TestTakenOver(t *testing.T) {
	for _, ends := range []bool{false, true} {
		r, a, b, c := newRig(t, time.Hour), &peer{}, &peer{}, &peer{}
		for _, p := range []*peer{a, b, c} {
			r.TakenOver(p)
			r.TakenOver(p)
		}
		r.seeks(c, 1, 1)
		r.seeks(b, 2, 9)
		r.shares(a, 1)
		r.gives(a, r.asked(a, 1))
		r.mustGet(c, 1, true)
		over := &handover.Message{Kind: handover.KindShare, Over: true}
		r.Said(a, over, nil)
		r.Said(b, over, nil)
		r.Said(b, over, nil)
		r.mustBeQuiet(a, b, c)
		if ends {
			c.ended = true
			r.Ended(c)
		} else {
			r.Said(c, over, nil)
		}
		r.mustGet(b, 2, false)
		r.seeks(b, 3, 9)
		r.mustGet(b, 3, false)
		r.mustBeEmpty(a, b, c)
	}
}
