package main

import (
	"context"
	"fmt"
	"time"

	rocketmq "github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

func push(o options) error {
	count := o.number("count", 0)
	seen := make(chan struct{}, 1<<16)
	for member := 0; member < o.number("members", 1); member++ {
		started, err := startMember(o, member, seen)
		if err != nil {
			return err
		}
		defer started.Shutdown()
		emit(event{"event": "started", "member": member})
	}
	end := time.After(o.millis("timeout-ms", 30000))
	for got := 0; count == 0 || got < count; got++ {
		select {
		case <-seen:
		case <-end:
			if count == 0 {
				return nil
			}
			return fmt.Errorf("%d messages did not come", count-got)
		}
	}
	time.Sleep(o.millis("linger-ms", 0))
	return nil
}

func startMember(o options, member int, seen chan<- struct{}) (rocketmq.PushConsumer, error) {
	settings := []consumer.Option{
		consumer.WithNameServer(primitive.NamesrvAddr{o["namesrv"]}),
		consumer.WithGroupName(o["group"]),
		consumer.WithInstance(unique("member")),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithCredentials(credentials(o)),
		consumer.WithConsumerOrder(o.flag("order")),
	}
	if o.flag("broadcast") {
		settings = append(settings, consumer.WithConsumerModel(consumer.BroadCasting))
	}
	if times := o.number("max-reconsume", 0); times > 0 {
		settings = append(settings, consumer.WithMaxReconsumeTimes(int32(times)))
	}
	taker, err := rocketmq.NewPushConsumer(settings...)
	if err != nil {
		return nil, err
	}
	verdict := consumer.ConsumeSuccess
	if o.flag("fail") {
		verdict = consumer.ConsumeRetryLater
	}
	err = taker.Subscribe(o["topic"], selector(o),
		func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
			for _, message := range messages {
				received(member, message)
				seen <- struct{}{}
			}
			return verdict, nil
		})
	if err != nil {
		return nil, err
	}
	return taker, taker.Start()
}

func selector(o options) consumer.MessageSelector {
	if o["sql"] != "" {
		return consumer.MessageSelector{Type: consumer.SQL92, Expression: o["sql"]}
	}
	return consumer.MessageSelector{Type: consumer.TAG, Expression: o.text("filter", "*")}
}

// pull takes by Poll, the pull interface of this client that shares queues among members.
func pull(o options) error {
	taker, err := rocketmq.NewPullConsumer(
		consumer.WithNameServer(primitive.NamesrvAddr{o["namesrv"]}),
		consumer.WithGroupName(o["group"]),
		consumer.WithInstance(unique("puller")),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
		consumer.WithCredentials(credentials(o)),
	)
	if err != nil {
		return err
	}
	if err := taker.Subscribe(o["topic"], selector(o)); err != nil {
		return err
	}
	if err := taker.Start(); err != nil {
		return err
	}
	defer taker.Shutdown()
	emit(event{"event": "started", "member": 0})
	count, seen := o.number("count", 0), 0
	end := time.Now().Add(o.millis("timeout-ms", 30000))
	for seen < count && time.Now().Before(end) {
		request, err := taker.Poll(context.Background(), time.Second)
		if consumer.IsNoNewMsgError(err) {
			continue
		} else if err != nil {
			return err
		}
		for _, message := range request.GetMsgList() {
			received(0, message)
			seen++
		}
		taker.ACK(context.Background(), request, consumer.ConsumeSuccess)
	}
	if seen < count {
		return fmt.Errorf("%d messages did not come", count-seen)
	}
	return nil
}
