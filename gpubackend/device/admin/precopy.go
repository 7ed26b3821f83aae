// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/paracuda/paracuda/gpubackend/socket"
	"github.com/paracuda/paracuda/gpubackend/suspend"
)

// Direction is which way device memory goes ahead of the VM.
type Direction string

// The directions.
const (
	To   Direction = "to"   // where the VM is going to be migrated
	From Direction = "from" // where it comes from
)

// precopy sends or receives device memory ahead, for as long as that takes. The client is told now
// and then that it goes on; its connection ends with it.
func (v *VM) precopy(d Direction, file *os.File, c net.Conn) Answer {
	serve := map[Direction]func(*net.UnixConn, func(suspend.Progress)) (uint64, error){
		To: v.PrecopyTo, From: v.PrecopyFrom,
	}[d]
	if serve == nil || file == nil {
		return Answer{Error: fmt.Sprintf("%q isn't a direction, or there is no connection", d)}
	}
	conn, err := socket.Of(file)
	if err != nil {
		return Answer{Error: err.Error()}
	}
	_ = c.SetDeadline(time.Time{})
	var now atomic.Pointer[suspend.Progress]
	now.Store(&suspend.Progress{})
	ended := make(chan Answer, 1)
	begin := time.Now()
	go v.Guard("memory that goes ahead", func() {
		a := Answer{Error: "an internal fault: see the log of the device process"}
		defer func() {
			_ = conn.Close()
			ended <- a
		}()
		bytes, err := serve(conn, func(p suspend.Progress) { now.Store(&p) })
		a = Answer{Moved: &suspend.Moved{Bytes: bytes, Took: time.Since(begin)}}
		if err != nil {
			a = Answer{Error: err.Error()}
		}
	})
	ticker := time.NewTicker(precopyPause)
	defer ticker.Stop()
	for {
		select {
		case a := <-ended:
			return a
		case <-ticker.C:
			_ = c.SetWriteDeadline(time.Now().Add(adminTimeout))
			_ = json.NewEncoder(c).Encode(&Answer{Progress: now.Load()})
		}
	}
}

// precopyPause is the time between two reports of progress.
const precopyPause = 250 * time.Millisecond

// AskToPrecopy asks to send or receive device memory over a connection, which stays the caller's,
// and returns when that is done.
func AskToPrecopy(
	control string, d Direction, f *os.File, tell func(suspend.Progress),
) (*Answer, error) {
	return AskWithFile(control, Request{Precopy: d}, f,
		func() error { return errors.New("an unexpected answer") }, tell)
}
