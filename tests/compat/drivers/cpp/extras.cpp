// What librocketmq exports in C++ only: transactions, and asking for a route at any time.
//
// The Python package brings the library without headers, so what is called is declared here as the
// library has it (client 1.2.3, x86-64, std::string of before C++11: -D_GLIBCXX_USE_CXX11_ABI=0).
// Its classes are opaque but one: TransactionMQProducer has no constructor in the library, so its
// members are put together here, at the places where its methods look for them.

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <memory>
#include <string>

namespace boost {  // 1.58, linked into the library

class thread_group {
 public:
  thread_group();
  ~thread_group();

 private:
  void* place_[41];
};

namespace asio {

class io_service {
 public:
  io_service();
  ~io_service();
  // A service without outstanding work ends its threads; the count is in a part of its own.
  std::atomic<long>* outstanding() { return reinterpret_cast<std::atomic<long>*>(part_ + 0xb8); }
  void* part() { return part_; }

 private:
  void* registry_;
  char* part_;
};

}  // namespace asio
}  // namespace boost

namespace rocketmq {

enum LocalTransactionState { COMMIT, ROLLBACK, UNKNOWN };

class MQMessage {
 public:
  MQMessage(const std::string& topic, const std::string& tags, const std::string& keys,
            const std::string& body);
  ~MQMessage();
  void setProperty(const std::string& name, const std::string& value);
  const std::string& getProperty(const std::string& name) const;
  const std::string& getBody() const;

 private:
  void* place_[32];  // more than it takes
};

class MQMessageExt : public MQMessage {};

class MQMessageQueue {
 public:
  ~MQMessageQueue();
  int getQueueId() const;

 private:
  void* place_[8];
};

class SendResult {
 public:
  const std::string& getMsgId() const;
  const std::string& getOffsetMsgId() const;
  int getSendStatus() const;
  MQMessageQueue getMessageQueue() const;
  long long getQueueOffset() const;

 private:
  void* place_[32];
};

class TransactionSendResult : public SendResult {
 public:
  ~TransactionSendResult();
};

class TransactionListener {
 public:
  virtual ~TransactionListener() {}
  virtual LocalTransactionState executeLocalTransaction(const MQMessage& message, void* arg) = 0;
  virtual LocalTransactionState checkLocalTransaction(const MQMessageExt& message) = 0;
};

class SessionCredentials;

class MQClientFactory {
 public:
  bool updateTopicRouteInfoFromNameServer(const std::string& topic,
                                          const SessionCredentials& credentials, bool isDefault);
  void sendHeartbeatToAllBroker();
};

class MQClient {
 public:
  void setNamesrvAddr(const std::string& address);
  void setInstanceName(const std::string& name);
  const SessionCredentials& getSessionCredentials() const;
  MQClientFactory* getFactory() const;

 protected:
  const void* const* methods_;
  void* place_[14];
};

class DefaultMQProducer : public MQClient {
 public:
  explicit DefaultMQProducer(const std::string& group);
  ~DefaultMQProducer();
  void setSendMsgTimeout(int milliseconds);

 private:
  int settings_[6];
};

extern const void* const producer_methods[] asm("_ZTVN8rocketmq21TransactionMQProducerE");

class TransactionMQProducer : public DefaultMQProducer {
 public:
  TransactionMQProducer(const std::string& group, TransactionListener* listener)
      : DefaultMQProducer(group), listener_(listener), thread_count_(1), work_(service_.part()) {
    methods_ = producer_methods + 2;  // behind the offset and the type
    ++*service_.outstanding();
  }
  ~TransactionMQProducer();
  void start();
  void shutdown();
  TransactionSendResult sendMessageInTransaction(MQMessage& message, void* arg);

 private:
  std::shared_ptr<TransactionListener> listener_;
  int thread_count_;
  boost::thread_group threads_;
  boost::asio::io_service service_;
  void* work_;
};

static_assert(sizeof(DefaultMQProducer) == 0x90, "where the listener is");
static_assert(sizeof(TransactionMQProducer) == 0x208, "where the last member ends");

}  // namespace rocketmq

namespace {

using namespace rocketmq;

const char* const kUniqueKey = "UNIQ_KEY";
const char* const kAskedTimes = "TRANSACTION_CHECK_TIMES";

using Check = int (*)(const char* body, const char* id, const char* times);

// Says of its own transaction what was sent along with it, and asks `check` when a broker asks.
class Listener : public TransactionListener {
 public:
  explicit Listener(Check check) : check_(check) {}

  LocalTransactionState executeLocalTransaction(const MQMessage&, void* arg) override {
    return static_cast<LocalTransactionState>(reinterpret_cast<intptr_t>(arg));
  }

  LocalTransactionState checkLocalTransaction(const MQMessageExt& message) override {
    return static_cast<LocalTransactionState>(check_(message.getBody().c_str(),
                                                     message.getProperty(kUniqueKey).c_str(),
                                                     message.getProperty(kAskedTimes).c_str()));
  }

 private:
  Check check_;
};

// What `action` threw, or null.
template <typename Action>
const char* guarded(Action action) {
  static thread_local std::string problem;
  try {
    action();
    return nullptr;
  } catch (const std::exception& error) {
    problem = error.what();
  }
  return problem.c_str();
}

}  // namespace

extern "C" {

struct Sent {
  char id[64];
  char offset_id[64];
  int status;
  int queue;
  long long queue_offset;
};

// Each answers with what went wrong, or null.

const char* extras_start(const char* group, const char* namesrv, const char* instance,
                         int timeout_ms, Check check, TransactionMQProducer** made) {
  return guarded([&] {
    auto producer = new TransactionMQProducer(group, new Listener(check));
    *made = producer;
    producer->setNamesrvAddr(namesrv);
    producer->setInstanceName(instance);
    producer->setSendMsgTimeout(timeout_ms);
    producer->start();
  });
}

const char* extras_send(TransactionMQProducer* producer, const char* topic, const char* key,
                        const char* number, const char* body, int state, Sent* sent) {
  return guarded([&] {
    MQMessage message(topic, "A", key, body);
    message.setProperty("n", number);
    void* arg = reinterpret_cast<void*>(static_cast<intptr_t>(state));
    TransactionSendResult result = producer->sendMessageInTransaction(message, arg);
    std::snprintf(sent->id, sizeof sent->id, "%s", result.getMsgId().c_str());
    std::snprintf(sent->offset_id, sizeof sent->offset_id, "%s", result.getOffsetMsgId().c_str());
    sent->status = result.getSendStatus();
    sent->queue = result.getMessageQueue().getQueueId();
    sent->queue_offset = result.getQueueOffset();
  });
}

const char* extras_stop(TransactionMQProducer* producer) {
  return guarded([&] {
    producer->shutdown();
    delete producer;
  });
}

// The name server is asked where the topic is, and the brokers hear of the client; else each 30 s.
const char* extras_refresh(MQClient* client, const char* topic) {
  return guarded([&] {
    MQClientFactory* factory = client->getFactory();
    factory->updateTopicRouteInfoFromNameServer(topic, client->getSessionCredentials(), false);
    factory->sendHeartbeatToAllBroker();
  });
}

}  // extern "C"
