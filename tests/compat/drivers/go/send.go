package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/producer"
)

const shards = 3

func send(o options) error {
	selector := producer.NewRoundRobinQueueSelector()
	if o.text("kind", "sync") == "ordered" {
		selector = producer.NewHashQueueSelector()
	}
	sender, err := rocketmq.NewProducer(
		producer.WithNameServer(primitive.NamesrvAddr{o["namesrv"]}),
		producer.WithGroupName(o.text("group", "PG_driver")),
		producer.WithInstanceName(unique("producer")),
		producer.WithSendMsgTimeout(o.millis("timeout-ms", 5000)),
		producer.WithQueueSelector(selector),
		producer.WithCredentials(credentials(o)),
	)
	if err != nil {
		return err
	}
	if err := sender.Start(); err != nil {
		return err
	}
	defer sender.Shutdown()
	if until, given := o["until"]; given {
		sendUntil(sender, o, until)
		return nil
	}
	messages := make([]*primitive.Message, o.number("count", 1))
	for i := range messages {
		messages[i] = message(o, i)
	}
	return sendAll(sender, o.text("kind", "sync"), messages)
}

func sendUntil(sender rocketmq.Producer, o options, file string) {
	for i := 0; ; i++ {
		if _, err := os.Stat(file); err == nil {
			return
		}
		message := message(o, i)
		result, err := sender.SendSync(context.Background(), message)
		if err != nil {
			emit(event{"event": "failed", "body": shown(message.Body), "error": err.Error()})
		} else {
			report(message, result)
		}
		time.Sleep(o.millis("pause-ms", 0))
	}
}

func message(o options, i int) *primitive.Message {
	prefix := o.text("prefix", "m")
	body := fmt.Sprintf("%s-%d", prefix, i)
	if missing := o.number("size", 0) - len(body); missing > 0 {
		body += strings.Repeat(".", missing)
	}
	made := primitive.NewMessage(o["topic"], []byte(body))
	if tags := strings.Split(o["tags"], ","); tags[0] != "" {
		made.WithTag(tags[i%len(tags)])
	}
	made.WithKeys([]string{fmt.Sprintf("%s-k-%d", prefix, i)})
	made.WithProperty("n", strconv.Itoa(i))
	made.WithProperty("color", []string{"red", "blue"}[i%2])
	made.WithProperty("note", "snow 雪")
	if level := o.number("delay", 0); level > 0 {
		made.WithDelayTimeLevel(level)
	}
	if o["kind"] == "ordered" {
		made.WithShardingKey(fmt.Sprintf("shard-%d", i%shards))
	}
	return made
}

func sendAll(sender rocketmq.Producer, kind string, messages []*primitive.Message) error {
	background := context.Background()
	switch kind {
	case "sync", "ordered":
		for _, message := range messages {
			result, err := sender.SendSync(background, message)
			if err != nil {
				return err
			}
			report(message, result)
		}
	case "async":
		return sendAsync(sender, messages)
	case "oneway":
		for _, message := range messages {
			if err := sender.SendOneWay(background, message); err != nil {
				return err
			}
			emit(event{"event": "sent", "status": "ONEWAY", "body": shown(message.Body)})
		}
		// Shutdown closes the connection without a farewell, and a close may take with it what is
		// on its way. An answered send on the same connection shows that all before it arrived.
		_, err := sender.SendSync(background, primitive.NewMessage("driver_done", []byte(".")))
		return err
	case "batch":
		result, err := sender.SendSync(background, messages...)
		if err != nil {
			return err
		}
		for _, message := range messages {
			report(message, result)
		}
	default:
		return fmt.Errorf("no kind %s", kind)
	}
	return nil
}

func sendAsync(sender rocketmq.Producer, messages []*primitive.Message) error {
	var open sync.WaitGroup
	failures := make(chan error, len(messages))
	for _, message := range messages {
		message := message // before Go 1.22 a loop has one variable for all its turns
		open.Add(1)
		done := func(_ context.Context, result *primitive.SendResult, err error) {
			defer open.Done()
			if err != nil {
				failures <- err
			} else {
				report(message, result)
			}
		}
		if err := sender.SendAsync(context.Background(), done, message); err != nil {
			return err
		}
	}
	open.Wait()
	close(failures)
	return <-failures
}

func report(message *primitive.Message, result *primitive.SendResult) {
	status := "SEND_OK"
	if result.Status != primitive.SendOK {
		status = fmt.Sprintf("status %d", result.Status)
	}
	emit(event{
		"event": "sent", "status": status, "id": result.MsgID, "offset_id": result.OffsetMsgID,
		"queue": result.MessageQueue.QueueId, "queue_offset": result.QueueOffset,
		"body": shown(message.Body),
	})
}
