// SPDX-License-Identifier: Apache-2.0

package precopy

import (
	"crypto/tls"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/paracuda/paracuda/gpubackend/socket"
)

// lastWords is how long the last data may take to get to the other host.
const lastWords = 10 * time.Second

// relayed is a connection to the other host, of which the device process has the plain end.
type relayed struct {
	conn  *tls.Conn
	plain *net.UnixConn
	far   *os.File // the device process's end
	all   sync.WaitGroup
}

// relay passes on what comes on either side until both have ended.
func relay(conn *tls.Conn) (*relayed, error) {
	plain, far, err := socket.Connect(socket.Stream)
	if err != nil {
		return nil, err
	}
	r := &relayed{conn: conn, plain: plain, far: far}
	r.all.Go(func() { pass(conn, plain) })
	r.all.Go(func() { pass(plain, conn) })
	return r, nil
}

// end is called when the device process has closed its end. Its last data still gets there.
func (r *relayed) end() {
	r.far.Close()
	_ = r.conn.SetDeadline(time.Now().Add(lastWords))
	_ = r.plain.SetReadDeadline(time.Now().Add(lastWords))
	ended := make(chan struct{})
	go func() {
		r.all.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(2 * lastWords):
	}
	_ = r.conn.Close()
	_ = r.plain.Close()
	<-ended
}

// halfCloser is a connection of which one direction can be ended.
type halfCloser interface{ CloseWrite() error }

// pass copies until the stream ends, and ends the other side's, too.
func pass(to, from net.Conn) {
	_, _ = io.CopyBuffer(plainWriter{to}, plainReader{from}, make([]byte, 256<<10))
	if h, ok := to.(halfCloser); ok {
		_ = h.CloseWrite()
	}
}

// These hide ReadFrom and WriteTo of a connection, so that io.CopyBuffer uses its buffer.
type (
	plainReader struct{ io.Reader }
	plainWriter struct{ io.Writer }
)
