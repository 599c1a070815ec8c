"""Messages for an exact time: kept in rmq_sys_wheel_timer, hung on a wheel, delivered when due."""
