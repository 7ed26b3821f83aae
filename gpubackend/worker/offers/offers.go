// SPDX-License-Identifier: Apache-2.0

package offers

import (
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	"github.com/paracuda/paracuda/gpubackend/handover"
)

// SecretBytes is the size of a secret.
const SecretBytes = handover.SecretBytes

// Secret is by what an offer is found.
type Secret = [SecretBytes]byte

// Kind is what is offered. Under a secret there may be one offer of each kind.
type Kind string

// The kinds.
const (
	Memory  Kind = "memory"
	Event   Kind = "event"
	Created Kind = "created" // memory without an address
)

// ErrNone says that nothing is offered under a secret, or not any more.
var ErrNone = errors.New("nobody offers it: a program has ended, or has freed it")

var (
	errTwice = errors.New("something is offered under this secret")
	errEnded = errors.New("the device process is gone")
)

// Sender is the connection to the device process.
type Sender interface {
	Send(m *handover.Message, fds []int) error
}

// Offers are those of this process, and its way to those of others.
type Offers struct {
	sender Sender

	mu      sync.Mutex // held while something is sent that has to be in order
	offered map[handover.ShareName]*Offer
	turn    uint64
	seeking *seeking // nil: nothing is waited for
	// by their numbers: offers of which the device process doesn't know yet
	telling map[uint64]chan struct{}
	listens bool // messages of the device process are received
	ended   bool // nobody is told of anything any more
}

// Offer is something that is offered.
type Offer struct {
	of   *Offers
	name handover.ShareName
	text []byte
	fd   int // -1 for none
}

// seeking is what is waited for.
type seeking struct {
	message *handover.Message
	found   chan found // one
}

type found struct {
	message *handover.Message // nil: the device process is gone
	fd      int
}

// New returns the Offers of a process that offers nothing.
func New(s Sender) *Offers {
	return &Offers{sender: s, offered: map[handover.ShareName]*Offer{},
		telling: map[uint64]chan struct{}{}}
}

// Open chooses a secret and begins to offer a text and a file, -1 for none, which the offer owns
// from now on.
func (o *Offers) Open(kind Kind, text []byte, fd int) (*Offer, error) {
	var secret Secret
	_, _ = rand.Read(secret[:])
	return o.OpenAs(secret, kind, text, fd)
}

// Listens is called when the device process's messages are about to be received: from then on an
// offer is open only when that process knows of it. What was offered before is known when this
// worker is ready, which the device process is told by the same connection.
func (o *Offers) Listens() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.listens = true
}

// OpenAs is Open with a secret that was chosen before, under which nothing is offered now.
func (o *Offers) OpenAs(secret Secret, kind Kind, text []byte, fd int) (*Offer, error) {
	x := &Offer{of: o, name: handover.ShareName{Kind: string(kind), Secret: secret}, text: text,
		fd: fd}
	told, err := o.tell(x)
	if err != nil {
		handover.CloseFiles([]int{fd})
		return nil, fmt.Errorf("offer to other processes: %w", err)
	}
	if told != nil {
		<-told
	}
	return x, nil
}

// tell tells the device process of an offer. told is closed when that knows of it; nil: nobody need
// wait for it.
func (o *Offers) tell(x *Offer) (told chan struct{}, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.offered[x.name] != nil {
		return nil, errTwice
	}
	m := &handover.Message{Kind: handover.KindShare, Shared: []handover.ShareName{x.name}}
	waits := o.listens && !o.ended
	if waits {
		o.turn++
		m.Turn = o.turn
	}
	if err := o.sender.Send(m, nil); err != nil {
		return nil, err
	}
	o.offered[x.name] = x
	if waits {
		told = make(chan struct{})
		o.telling[m.Turn] = told
	}
	return told, nil
}

// Secret is what the other process must know.
func (x *Offer) Secret() Secret { return x.name.Secret }

// Close ends the offer.
func (x *Offer) Close() {
	o := x.of
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.offered[x.name] != x {
		return
	}
	delete(o.offered, x.name)
	handover.CloseFiles([]int{x.fd})
	if !o.ended { // a connection that has ended is noticed elsewhere
		_ = o.sender.Send(&handover.Message{Kind: handover.KindUnshare,
			Shared: []handover.ShareName{x.name}}, nil)
	}
}

// Obey obeys a message of the device process that is for this package, which takes over its files;
// false: it isn't.
func (o *Offers) Obey(m *handover.Message, fds []int) (obeyed bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch m.Kind {
	case handover.KindGive:
		return true, o.give(m)
	case handover.KindFound:
		o.take(m, m.Name(fds).Object)
		return true, nil
	case handover.KindShared:
		if told := o.telling[m.Turn]; told != nil {
			delete(o.telling, m.Turn)
			close(told)
		}
		return true, nil
	}
	return false, nil
}

// give gives what another worker asks for.
func (o *Offers) give(m *handover.Message) error {
	answer := &handover.Message{Kind: handover.KindGiven, Turn: m.Turn, Nobody: true}
	var fds []int
	if len(m.Shared) == 1 {
		if x := o.offered[m.Shared[0]]; x != nil {
			answer.Nobody, answer.Text = false, x.text
			if x.fd >= 0 {
				answer.Files.Object, fds = true, []int{x.fd}
			}
		}
	}
	return o.sender.Send(answer, fds)
}

// take takes what the loop waits for. An answer to an earlier device process's question, or to one
// that was asked twice, isn't waited for.
func (o *Offers) take(m *handover.Message, fd int) {
	s := o.seeking
	if s == nil || s.message.Turn != m.Turn {
		handover.CloseFiles([]int{fd})
		return
	}
	o.seeking = nil
	s.found <- found{m, fd}
}

// mostNames is how many secrets a message has.
const mostNames = 1 << 10

// Again tells another device process of all offers, and asks it what the one before it was asked.
func (o *Offers) Again() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	m := &handover.Message{Kind: handover.KindShare}
	for name := range o.offered {
		if m.Shared = append(m.Shared, name); len(m.Shared) < mostNames {
			continue
		}
		if err := o.sender.Send(m, nil); err != nil {
			return err
		}
		m.Shared = nil
	}
	m.Over = true
	if err := o.sender.Send(m, nil); err != nil {
		return err
	}
	for turn := range o.telling {
		if err := o.sender.Send(
			&handover.Message{Kind: handover.KindShare, Turn: turn}, nil); err != nil {
			return err
		}
	}
	if o.seeking == nil {
		return nil
	}
	return o.sender.Send(o.seeking.message, nil)
}

// End says that the connection has ended, or that nobody needs to know of anything any more. What
// is waited for doesn't come.
func (o *Offers) End() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	if s := o.seeking; s != nil {
		o.seeking = nil
		s.found <- found{fd: -1}
	}
	for turn, told := range o.telling {
		delete(o.telling, turn)
		close(told)
	}
}

// Receive asks for what another process offers: so many bytes of text, and a file or -1.
func (o *Offers) Receive(kind Kind, secret Secret, bytes int) ([]byte, int, error) {
	s, err := o.seek(handover.ShareName{Kind: string(kind), Secret: secret})
	if err != nil {
		return nil, -1, err
	}
	got := <-s.found
	switch {
	case got.message == nil:
		err = errEnded
	case got.message.Nobody:
		err = ErrNone
	case got.message.Error != "":
		err = errors.New(got.message.Error)
	case len(got.message.Text) != bytes:
		err = fmt.Errorf("%d bytes of %d", len(got.message.Text), bytes)
	default:
		return got.message.Text, got.fd, nil
	}
	handover.CloseFiles([]int{got.fd})
	return nil, -1, fmt.Errorf("ask for what another program offers: %w", err)
}

// seek asks the device process.
func (o *Offers) seek(what handover.ShareName) (*seeking, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ended {
		return nil, errEnded
	}
	o.turn++
	s := &seeking{&handover.Message{Kind: handover.KindSeek, Turn: o.turn,
		Shared: []handover.ShareName{what}}, make(chan found, 1)}
	if err := o.sender.Send(s.message, nil); err != nil {
		return nil, err
	}
	o.seeking = s
	return s, nil
}
