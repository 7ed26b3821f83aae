// SPDX-License-Identifier: Apache-2.0

package arbiter

import (
	"fmt"
	"time"

	"github.com/paracuda/paracuda/gpubackend/arbiter/link"
)

// sendTimeout is how long a device process or a command may leave a message unread.
const sendTimeout = 5 * time.Second

// serve does what one connection asks for: one command, or taking part until the connection ends.
func (a *Arbiter) serve(c *link.Conn) {
	c.Deadline(time.Now().Add(firstTimeout))
	var r link.Request
	fds, err := c.Receive(&r, gateFiles)
	if err != nil {
		return
	}
	if r.Kind != link.Join || r.Version != link.Version {
		link.CloseFiles(fds)
	}
	a.requests.Wait(a.done)
	switch {
	case r.Version != link.Version:
		refuse(c, fmt.Errorf("this arbiter speaks version %d, the other process %d: "+
			"install the same paracuda for both", link.Version, r.Version))
	case r.Kind == link.Join:
		m, err := a.join(&r, fds)
		if err != nil {
			refuse(c, err)
			return
		}
		defer a.leave(m)
		a.follow(c, m)
	case r.Kind == link.Choose:
		a.choose(c, &r)
	case r.Kind == link.List:
		a.sendList(c)
	case r.Kind == link.Set:
		if err := a.set(c, &r); err != nil {
			refuse(c, err)
			return
		}
		send(c, &link.Answer{})
	default:
		refuse(c, fmt.Errorf("unknown request %.20q", r.Kind))
	}
}

func refuse(c *link.Conn, err error) { send(c, &link.Answer{Error: err.Error()}) }

// send sends an answer, and says whether it could.
func send(c *link.Conn, answer *link.Answer) bool {
	answer.Version = link.Version
	c.SendDeadline(time.Now().Add(sendTimeout))
	return c.Send(answer) == nil
}

// follow takes what a device process tells of its VM, and tells it the VM's terms.
func (a *Arbiter) follow(c *link.Conn, m *member) {
	if !send(c, &link.Answer{Terms: a.terms(m)}) {
		return
	}
	answers, ended := make(chan *link.Answer, 1), make(chan struct{})
	defer func() {
		close(answers)
		<-ended
	}()
	go func() {
		defer close(ended)
		a.tell(c, m, answers)
	}()
	c.Deadline(time.Time{})
	for {
		var r link.Request
		if _, err := c.Receive(&r, 0); err != nil {
			return
		}
		a.requests.Wait(a.done)
		switch {
		case r.Kind == link.Tell && r.Figures != nil:
			r.Figures.Clean()
			answers <- a.took(m, r.Figures, r.Warm)
		case r.Kind == link.Stay && r.Place != nil:
			a.loop.do(func() { a.loop.placed(m, r.Place) })
		case r.Kind == link.Set:
			answers <- a.change(m, r.Policy)
		}
	}
}

// took takes a device process's figures, and returns what its VM has had of the GPUs and how many
// warm workers it may keep.
func (a *Arbiter) took(m *member, f *link.Figures, w *link.Warm) *link.Answer {
	var answer link.Answer
	a.loop.do(func() {
		now := a.loop.clock.now()
		m.told(now, f)
		if w != nil {
			a.loop.wants(m, w)
			granted := m.ready.granted
			answer.Warm = &granted
		}
		s, _ := a.loop.scheduler.Stats(now, m.id)
		v := m.tell(s)
		a.loop.tellMemory(&v, m)
		v.Figures = nil
		answer.VMs = []link.VM{v}
	})
	return &answer
}

// tell sends the device process answers, and terms when they have changed, until the answers end.
func (a *Arbiter) tell(c *link.Conn, m *member, answers <-chan *link.Answer) {
	for {
		var answer *link.Answer
		select {
		case next, ok := <-answers:
			if !ok {
				return
			}
			answer = next
		case <-m.news:
			answer = &link.Answer{Terms: a.terms(m)}
		case <-m.residence.news:
			answer = &link.Answer{Order: a.orders(m)}
		case <-m.ready.news:
			answer = &link.Answer{Warm: a.granted(m)}
		}
		if !send(c, answer) {
			c.Close() // so that follow ends
			for range answers {
			}
			return
		}
	}
}
