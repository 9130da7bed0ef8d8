package standin

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// zmqSend connects to a ZeroMQ ROUTER socket as a DEALER and sends it message
// now and then every interval, until ctx or the connection ends. It speaks as
// much of ZMTP 3.0 (rfc.zeromq.org/spec/23) as that takes.
func zmqSend(ctx context.Context, addr string, message []byte, interval time.Duration) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := zmqGreet(conn); err != nil {
		return fmt.Errorf("greet: %w", err)
	}
	gone := make(chan error, 1)
	go func() {
		_, err := io.Copy(io.Discard, conn)
		if err == nil {
			err = io.EOF
		}
		gone <- err
	}()
	for {
		if _, err := conn.Write(zmqFrame(0, message)); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-gone:
			return err
		case <-time.After(interval):
		}
	}
}

// zmqGreet exchanges greetings and READY commands without security.
func zmqGreet(conn net.Conn) error {
	_ = conn.SetDeadline(time.Now().Add(5 * time.Second))
	greeting := make([]byte, 64)
	greeting[0], greeting[9], greeting[10] = 0xff, 0x7f, 3
	copy(greeting[12:], "NULL")
	if _, err := conn.Write(greeting); err != nil {
		return err
	}
	theirs := make([]byte, 64)
	if _, err := io.ReadFull(conn, theirs); err != nil {
		return err
	}
	if theirs[0] != 0xff || theirs[10] < 3 {
		return errors.New("the other side speaks no ZMTP 3")
	}
	ready := append([]byte{5}, "READY"...)
	ready = append(ready, zmqProperty("Socket-Type", "DEALER")...)
	ready = append(ready, zmqProperty("Identity", "")...)
	const command = 4
	if _, err := conn.Write(zmqFrame(command, ready)); err != nil {
		return err
	}
	head := make([]byte, 2)
	if _, err := io.ReadFull(conn, head); err != nil {
		return err
	}
	if head[0] != command {
		return fmt.Errorf("got frame type %d, want READY", head[0])
	}
	if _, err := io.CopyN(io.Discard, conn, int64(head[1])); err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}

func zmqProperty(name, value string) []byte {
	out := append([]byte{byte(len(name))}, name...)
	out = binary.BigEndian.AppendUint32(out, uint32(len(value)))
	return append(out, value...)
}

// zmqFrame is a frame of fewer or more than 256 bytes.
func zmqFrame(flags byte, body []byte) []byte {
	if len(body) < 256 {
		return append([]byte{flags, byte(len(body))}, body...)
	}
	const long = 2
	return append(binary.BigEndian.AppendUint64([]byte{flags | long}, uint64(len(body))), body...)
}

// msgpackMap encodes a map of texts, at most 15 of them.
func msgpackMap(pairs [][2]string) []byte {
	out := []byte{0x80 | byte(len(pairs))}
	for _, p := range pairs {
		for _, s := range p {
			out = append(out, 0xd9, byte(len(s)))
			out = append(out, s...)
		}
	}
	return out
}
