// SPDX-License-Identifier: Apache-2.0

// Package inbox reads the connection to the device process, and hands whole messages to the
// worker's loop. Messages that don't need the loop it answers at once.
//
// # Who owns what
//
// Read runs on a goroutine of its own, until the connection ends, and has another one hand messages
// on: the loop may wait for what Read must answer first. A message and its files belong to the
// receiver.
//
// # Who may lie
//
// The device process is believed.
package inbox

import (
	"sync"

	"github.com/paracuda/paracuda/gpubackend/handover"
)

// Received is a message, or the end of the connection.
type Received struct {
	Message *handover.Message
	Files   []int
	Err     error
}

// Conn is the connection to the device process.
type Conn interface {
	Receive() (*handover.Message, []int, error)
}

// Inbox is the messages of the device process that wait for the loop.
type Inbox struct {
	Conn Conn
	// Early are messages that were received before. They come first.
	Early []Received
	// AtOnce obeys a message that doesn't need the loop; false: it does.
	AtOnce func(m *handover.Message, files []int) (obeyed bool, err error)
	// To gets the messages, and Wake tells the loop.
	To   chan<- Received
	Wake func()

	mu    sync.Mutex
	list  []Received // that the loop hasn't got; guarded by mu
	hands bool       // a goroutine hands them on; guarded by mu
}

// Read runs until the connection ends, and says so to the loop.
func (i *Inbox) Read() {
	for _, r := range i.Early {
		if !i.take(r) {
			return
		}
	}
	for {
		m, files, err := i.Conn.Receive()
		if !i.take(Received{m, files, err}) {
			return
		}
	}
}

// take has a message obeyed at once, or handed on. It says whether another one may come.
func (i *Inbox) take(r Received) bool {
	if r.Err == nil {
		obeyed, err := i.AtOnce(r.Message, r.Files)
		if r.Err = err; obeyed && err == nil {
			return true
		}
	}
	i.handOn(r)
	return r.Err == nil
}

// handOn has a message handed on, in order, and doesn't wait.
func (i *Inbox) handOn(r Received) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.list = append(i.list, r); !i.hands {
		i.hands = true
		go i.hand()
	}
}

// hand hands on what there is.
func (i *Inbox) hand() {
	for {
		i.mu.Lock()
		if len(i.list) == 0 {
			i.hands = false
			i.mu.Unlock()
			return
		}
		r := i.list[0]
		i.list = i.list[1:]
		i.mu.Unlock()
		i.To <- r
		i.Wake()
	}
}
