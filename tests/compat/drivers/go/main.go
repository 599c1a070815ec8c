// The driver for Apache's Go client; see ../README.md for what it speaks.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

const shownChars = 64

var scenarios = map[string]func(options) error{"send": send, "push": push, "pull": pull}

var (
	out     = os.Stdout
	outLock sync.Mutex
)

func main() {
	os.Stdout = os.Stderr // what the client itself prints must not mix with our lines
	rlog.SetLogLevel("warn")
	if len(os.Args) > 1 {
		if !run(os.Args[1:]) {
			os.Exit(1)
		}
		return
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		if words := strings.Fields(lines.Text()); len(words) > 0 {
			run(words)
		}
	}
}

func run(words []string) (ok bool) {
	text := ""
	scenario, known := scenarios[words[0]]
	if !known {
		text = "no scenario " + words[0]
	} else if err := scenario(parse(words[1:])); err != nil {
		text = err.Error()
	}
	emit(event{"event": "end", "scenario": words[0], "ok": text == "", "error": text})
	return text == ""
}

type options map[string]string

func parse(words []string) options {
	values := options{}
	for i := 0; i+1 < len(words); i += 2 {
		values[strings.TrimPrefix(words[i], "--")] = strings.ReplaceAll(words[i+1], "+", " ")
	}
	return values
}

func (o options) text(name, otherwise string) string {
	if value, given := o[name]; given {
		return value
	}
	return otherwise
}

func (o options) number(name string, otherwise int) int {
	value, err := strconv.Atoi(o.text(name, strconv.Itoa(otherwise)))
	if err != nil {
		panic(err)
	}
	return value
}

func (o options) flag(name string) bool { return o[name] == "true" }

func (o options) millis(name string, otherwise int) time.Duration {
	return time.Duration(o.number(name, otherwise)) * time.Millisecond
}

type event map[string]any

// emit writes one line that begins with the event's name, by which the reader knows our lines.
func emit(fields event) {
	outLock.Lock()
	defer outLock.Unlock()
	name := fields["event"]
	delete(fields, "event")
	rest, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(out, "{\"event\":%q,%s\n", name, rest[1:])
}

// credentials signs requests as --user; without one they are empty, and nothing is signed.
func credentials(o options) primitive.Credentials {
	return primitive.Credentials{AccessKey: o["user"], SecretKey: o["secret"]}
}

func received(member int, message *primitive.MessageExt) {
	emit(event{
		"event": "received", "member": member, "topic": message.Topic,
		"queue": message.Queue.QueueId, "queue_offset": message.QueueOffset,
		"id": message.MsgId, "body": shown(message.Body), "size": len(message.Body),
		"crc": crc32.ChecksumIEEE(message.Body), "tags": message.GetTags(),
		"keys": message.GetKeys(), "reconsume": message.ReconsumeTimes,
		"at_ms": time.Now().UnixMilli(), "props": message.GetProperties(),
	})
}

func shown(body []byte) string {
	text := []rune(string(body))
	if len(text) > shownChars {
		text = text[:shownChars]
	}
	return string(text)
}

func unique(prefix string) string {
	return fmt.Sprintf("%s-%d", prefix, time.Now().UnixNano())
}
